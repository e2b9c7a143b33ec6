"""Compiled MuJoCo models as trees of bodies in torch, whose actuators may have commands over time."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from romkit.core.tensors import divisor
from romkit.core.types import Array, Shape, Tensors
from romkit.systems.mujoco import engine, multibody
from romkit.systems.mujoco.command import Commands
from romkit.systems.mujoco.engine import mujoco
from romkit.systems.mujoco.joints import SLIDE

CONSTANTS = (
    *("body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_inertia"),
    *("jnt_axis", "jnt_pos", "qpos0", "dof_armature"),
)


class Driven(NamedTuple):
    """Bodies, and the forces that the commands of actuators add to those of springs and dampers.

    Attributes:
        tree: without commands; if they are constant, with them.
        gains: (..., nu, 3, nv) of drive, stiffness and damping for each unit of a command; None if
            these are constant.
        commands: of the actuators.
        lead: leading axes of the contexts.
    """

    tree: multibody.Tree
    gains: Tensor | None
    commands: Commands
    lead: Shape

    @classmethod
    def build(
        cls, models: Sequence["mujoco.MjModel"], lead: Sequence[int], commands: Commands
    ) -> "Driven":
        """Return the closed form of models with equal joints; constants have the leading axes
        `lead`.
        """
        lead = tuple(lead)
        controls = commands.at(np.zeros(1))[:, 0]  # (N, nu)
        if not commands.constant:
            # the forces of the commands are added at each time
            controls = np.zeros_like(controls)
        tables = {
            name: _stacked([getattr(model, name) for model in models], lead) for name in CONSTANTS
        }
        forces, gains = [], []
        for model, control in zip(models, controls, strict=True):
            force = engine.affine_forces(model, control)
            forces.append(force)
            if not commands.constant:
                # forces by each control alone, beside those of none
                of_units = [engine.affine_forces(model, unit) for unit in np.eye(model.nu)]
                gains.append(np.stack(of_units) - force)
        drive, stiffness, damping = _stacked(forces, lead).unbind(-2)
        gravity = _stacked([engine.gravity(model) for model in models], lead)
        tree = multibody.Tree(
            _bodies(models[0], tables), gravity, drive, stiffness, damping, tables["dof_armature"]
        )
        if commands.constant:
            return cls(tree, None, commands, lead)
        return cls(tree, _stacked(gains, lead), commands, lead)

    def at(self, t: Tensor) -> multibody.Tree:
        """Return the bodies with the forces of a time."""
        if self.gains is None:
            return self.tree
        times = np.array([float(t)])
        u = torch.from_numpy(self.commands.at(times)[:, 0])
        u = u.reshape(*self.lead, -1)  # (..., nu)
        forces = torch.einsum("...u,...ukv->...kv", u, self.gains)
        drive, stiffness, damping = forces.unbind(-2)
        tree = self.tree
        return tree._replace(
            drive=tree.drive + drive,
            stiffness=tree.stiffness + stiffness,
            damping=tree.damping + damping,
        )


def like(tree: multibody.Tree, q: Tensor) -> multibody.Tree:
    """Return the constants in the precision of q, with axes put in behind those of the context
    where q has more.
    """
    lead = tree.gravity.ndim - 1
    missing = (1,) * (q.ndim - 1 - lead)

    def lifted(x: object) -> object:
        if not isinstance(x, Tensor):
            return x
        context = x.shape[:lead]
        size = x.shape[lead:]
        return x.to(q).reshape((*context, *missing, *size))

    return tree_map(lifted, tree)


def _stacked(rows: Sequence[Array], lead: Shape) -> Tensor:
    shape = rows[0].shape
    return torch.from_numpy(np.stack(rows)).reshape(*lead, *shape)


def _bodies(model: "mujoco.MjModel", tables: Tensors) -> tuple[multibody.Body, ...]:
    rotations = _matrices(tables["body_quat"])
    principal = _matrices(tables["body_iquat"])
    inertia = principal @ torch.diag_embed(tables["body_inertia"]) @ principal.mT
    slides = model.jnt_type == SLIDE

    def joint(k: int) -> multibody.Joint:
        return multibody.Joint(
            k,
            slides[k],
            tables["jnt_axis"][..., k, :],
            tables["jnt_pos"][..., k, :],
            tables["qpos0"][..., k],
        )

    def body(b: int) -> multibody.Body:
        begin = int(model.body_jntadr[b])
        count = int(model.body_jntnum[b])
        return multibody.Body(
            parent=int(model.body_parentid[b]),
            position=tables["body_pos"][..., b, :],
            rotation=rotations[..., b, :, :],
            joints=tuple(joint(k) for k in range(begin, begin + count)),
            mass=tables["body_mass"][..., b],
            centre=tables["body_ipos"][..., b, :],
            inertia=inertia[..., b, :, :],
        )

    return tuple(body(b) for b in range(model.nbody))


def _matrices(quaternion: Tensor) -> Tensor:
    """(..., 3, 3) rotations of unit quaternions (..., 4), w first."""
    w = quaternion[..., 0]
    axis = quaternion[..., 1:]
    norm = axis.norm(dim=-1)
    unit = axis / divisor(norm).unsqueeze(-1)
    return multibody.rotation(unit, 2 * torch.atan2(norm, w))
