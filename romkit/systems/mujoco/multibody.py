"""Trees of rigid bodies in closed form, in torch: inertia and acceleration of hinges and slides.

Along the tree, frame by frame, go the rotation R, the position x, and with q̈ = 0 the angular
velocity ω, the velocity u, the angular acceleration α and the acceleration a. With the Jacobians V
and W of the centre of mass and of ω,

    M = Σ m VᵀV + Wᵀ I W + armature,        M q̈ = τ - Σ Vᵀ m (a - g) + Wᵀ (I α + ω × I ω).

Everything is batched: constants (..., 3) and states (..., n) broadcast. Source: Featherstone
(2008), Rigid Body Dynamics Algorithms, chapters 2 and 3, in world coordinates; the conventions are
those of MuJoCo.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.broadcast import linear_solve, matvec
from romkit.core.types import Pair


class Joint(NamedTuple):
    """One joint, the k-th coordinate: its kind, axis and anchor (..., 3) in the frame of its body,
    reference (...).
    """

    k: int
    slides: bool
    axis: Tensor
    anchor: Tensor
    reference: Tensor


class Body(NamedTuple):
    """One body in the frame of its parent: position (..., 3), rotation (..., 3, 3); its joints; its
    mass (...), centre of mass (..., 3) and inertia (..., 3, 3) in its own frame.
    """

    parent: int
    position: Tensor
    rotation: Tensor
    joints: tuple[Joint, ...]
    mass: Tensor
    centre: Tensor
    inertia: Tensor


class Tree(NamedTuple):
    """Bodies, parents first (0 is the world), gravity (..., 3), and joint forces τ = drive -
    stiffness q - damping v.

    `drive`, `damping` (of which actuators are a part) and `armature` are (..., n), `stiffness` is
    (..., n).
    """

    bodies: tuple[Body, ...]
    gravity: Tensor
    drive: Tensor
    stiffness: Tensor
    damping: Tensor
    armature: Tensor


class Placement(NamedTuple):
    """Place and motion of a body, and the joints that it depends on: number, axis, and anchor of a
    hinge.
    """

    R: Tensor
    x: Tensor
    omega: Tensor
    u: Tensor
    alpha: Tensor
    a: Tensor
    joints: tuple[tuple[int, Tensor, Tensor | None], ...] = ()

    def moved(self, r: Tensor) -> "Placement":
        """Return the frame at a point r (..., 3) away, on the same rigid body."""
        spin = cross(self.omega, r)
        centripetal = cross(self.omega, spin)
        a = self.a + cross(self.alpha, r) + centripetal
        return self._replace(x=self.x + r, u=self.u + spin, a=a)


def acceleration(tree: Tree, q: Tensor, v: Tensor) -> Tensor:
    """q̈ (..., n) at q and v (..., n)."""
    mass, force = _terms(tree, q, v)
    return linear_solve(mass, force)


def mass_matrix(tree: Tree, q: Tensor) -> Tensor:
    """M(q) (..., n, n)."""
    return _terms(tree, q, torch.zeros_like(q))[0]


def _terms(tree: Tree, q: Tensor, v: Tensor) -> Pair:
    """M (..., n, n) and what M q̈ equals (..., n)."""
    force = tree.drive - tree.stiffness * q - tree.damping * v
    mass = torch.diag_embed(tree.armature + 0 * q)
    frames = [_world(tree, q)]
    for body in tree.bodies[1:]:
        parent = frames[body.parent]
        # the frame of a body behind its joints
        frame = parent.moved(matvec(parent.R, body.position))
        frame = frame._replace(R=parent.R @ body.rotation)
        for joint in body.joints:
            step = q[..., joint.k] - joint.reference
            step = step.unsqueeze(-1)
            rate = v[..., joint.k].unsqueeze(-1)
            if joint.slides:
                frame = _slid(frame, joint, step, rate)
            else:
                frame = _turned(frame, joint, step, rate)
        frames.append(frame)
        centre = frame.moved(matvec(frame.R, body.centre))
        # V and W (..., 3, n) of the point and the body of a frame
        none = torch.zeros_like(centre.x)
        linear = [none] * q.shape[-1]
        angular = [none] * q.shape[-1]
        for k, axis, anchor in centre.joints:
            if anchor is None:
                linear[k] = axis + none
            else:
                linear[k] = cross(axis, centre.x - anchor)
                angular[k] = axis + none
        V, W = torch.stack(linear, dim=-1), torch.stack(angular, dim=-1)
        inertia = frame.R @ body.inertia @ frame.R.mT
        m = body.mass.unsqueeze(-1)
        of_motion = m.unsqueeze(-1) * (V.mT @ V)
        mass = mass + of_motion + (W.mT @ inertia @ W)
        pull = m * (centre.a - tree.gravity)
        gyroscopic = cross(frame.omega, matvec(inertia, frame.omega))
        twist = matvec(inertia, frame.alpha) + gyroscopic
        by_motion = matvec(V.mT, pull)
        force = force - by_motion - matvec(W.mT, twist)
    return mass, force


def _world(tree: Tree, q: Tensor) -> Placement:
    """Return the frame at rest of the world."""
    # states may have leading axes that constants lack, and the other way round
    zero = torch.zeros_like(q[..., :1]) + torch.zeros_like(tree.gravity)
    eye = torch.eye(3, dtype=q.dtype, device=q.device)
    R = eye + 0 * zero.unsqueeze(-1)
    return Placement(R, zero, zero, zero, zero, zero)


def _slid(frame: Placement, joint: Joint, step: Tensor, rate: Tensor) -> Placement:
    """Return a frame behind a slide."""
    axis = matvec(frame.R, joint.axis)
    frame = frame.moved(axis * step)
    u = frame.u + axis * rate
    coriolis = 2 * cross(frame.omega, axis) * rate
    joints = (*frame.joints, (joint.k, axis, None))
    return frame._replace(u=u, a=frame.a + coriolis, joints=joints)


def _turned(frame: Placement, joint: Joint, step: Tensor, rate: Tensor) -> Placement:
    """Return a frame behind a hinge, about whose anchor it turns."""
    axis = matvec(frame.R, joint.axis)
    hinge = frame.moved(matvec(frame.R, joint.anchor))
    R = frame.R @ rotation(joint.axis, step.squeeze(-1))
    omega = frame.omega + axis * rate
    alpha = frame.alpha + cross(frame.omega, axis) * rate
    joints = (*frame.joints, (joint.k, axis, hinge.x))
    hinge = hinge._replace(R=R, omega=omega, alpha=alpha, joints=joints)
    return hinge.moved(-matvec(R, joint.anchor))


def rotation(axis: Tensor, angle: Tensor) -> Tensor:
    """(..., 3, 3) about a unit axis (..., 3) by an angle (...): 1 + sin K + (1 - cos) K², Kv = axis
    × v.
    """
    a, b, c = axis.unbind(-1)
    zero = torch.zeros_like(a)
    entries = [zero, -c, b, c, zero, -a, -b, a, zero]
    K = torch.stack(entries, dim=-1)
    K = K.unflatten(-1, (3, 3))
    sine = angle.sin()
    # 1 - cos without its cancellation at small angles
    versine = 2 * (angle / 2).sin().square()
    unit = torch.eye(3, dtype=axis.dtype, device=axis.device)
    odd = sine[..., None, None] * K
    even = versine[..., None, None] * (K @ K)
    return unit + odd + even


def cross(a: Tensor, b: Tensor) -> Tensor:
    """Return a × b, each (..., 3)."""
    a0, a1, a2 = a.unbind(-1)
    b0, b1, b2 = b.unbind(-1)
    x = a1 * b2 - a2 * b1
    y = a2 * b0 - a0 * b2
    z = a0 * b1 - a1 * b0
    return torch.stack([x, y, z], dim=-1)
