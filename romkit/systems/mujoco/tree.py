"""Compiled MuJoCo models as trees of bodies in torch, whose actuators may have commands over time."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

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
    lead: tuple[int, ...]

    @classmethod
    def of(cls, models: Sequence["mujoco.MjModel"], lead: Sequence[int], commands: Commands):
        """The closed form of models with equal joints; constants have the leading axes `lead`."""
        lead = tuple(lead)
        controls = commands.at(np.zeros(1))[:, 0]  # (N, nu)
        if not commands.constant:
            # the forces of the commands are added at each time
            controls = np.zeros_like(controls)
        tables = {}
        for name in CONSTANTS:
            tables[name] = _stacked([getattr(model, name) for model in models], lead)
        members = list(zip(models, controls, strict=True))
        forces = [engine.affine_forces(model, control) for model, control in members]
        drive, stiffness, damping = _stacked(forces, lead).unbind(-2)
        gravity = _stacked([engine.gravity(model) for model in models], lead)
        bodies, armature = _bodies(models[0], tables), tables["dof_armature"]
        tree = multibody.Tree(bodies, gravity, drive, stiffness, damping, armature)
        if commands.constant:
            return cls(tree, None, commands, lead)
        rows = zip(models, forces, strict=True)
        gains = _stacked([_gains(model, unforced) for model, unforced in rows], lead)
        return cls(tree, gains, commands, lead)

    def at(self, t: Tensor) -> multibody.Tree:
        """The bodies with the forces of a time."""
        if self.gains is None:
            return self.tree
        u = self.commands.at(np.array([float(t)]))[:, 0]
        u = torch.from_numpy(u).reshape(*self.lead, -1)  # (..., nu)
        forces = torch.einsum("...u,...ukv->...kv", u, self.gains)
        drive, stiffness, damping = forces.unbind(-2)
        tree = self.tree
        return tree._replace(
            drive=tree.drive + drive,
            stiffness=tree.stiffness + stiffness,
            damping=tree.damping + damping,
        )


def like(tree: multibody.Tree, q: Tensor) -> multibody.Tree:
    """The constants in the precision of q, with axes put in behind those of the context where q has
    more.
    """
    lead = tree.gravity.ndim - 1
    missing = (1,) * (q.ndim - 1 - lead)

    def lifted(x: object) -> object:
        if not isinstance(x, Tensor):
            return x
        return x.to(q).reshape((*x.shape[:lead], *missing, *x.shape[lead:]))

    return tree_map(lifted, tree)


def _stacked(rows: Sequence[np.ndarray], lead: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(np.stack(rows)).reshape(*lead, *rows[0].shape)


def _gains(model: "mujoco.MjModel", unforced: np.ndarray) -> np.ndarray:
    """(nu, 3, nv) forces for each unit of a command: affine actuators are linear in it."""
    units = np.eye(model.nu)
    return np.stack([engine.affine_forces(model, unit) - unforced for unit in units])


def _bodies(model: "mujoco.MjModel", tables: dict[str, Tensor]) -> tuple[multibody.Body, ...]:
    rotations = _matrices(tables["body_quat"])
    principal = _matrices(tables["body_iquat"])
    inertia = principal @ torch.diag_embed(tables["body_inertia"]) @ principal.mT
    slides = model.jnt_type == SLIDE

    def joint(k: int) -> multibody.Joint:
        axis, anchor = tables["jnt_axis"][..., k, :], tables["jnt_pos"][..., k, :]
        return multibody.Joint(k, slides[k], axis, anchor, tables["qpos0"][..., k])

    def body(b: int) -> multibody.Body:
        begin, count = int(model.body_jntadr[b]), int(model.body_jntnum[b])
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
    w, axis = quaternion[..., 0], quaternion[..., 1:]
    norm = axis.norm(dim=-1)
    unit = axis / torch.where(norm > 0, norm, 1.0).unsqueeze(-1)
    return multibody.rotation(unit, 2 * torch.atan2(norm, w))
