"""MuJoCo models of a user: parameters that set parts of them, datasets, and a field that is
MuJoCo's.
"""

import time

import mujoco
import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import FileError, InputError
from romkit.systems import ModelParameter, MuJoCo
from romkit.testing import check_system
from tests.refusals import refused

CRANE = """
<mujoco>
  <option timestep="0.002" gravity="0.3 -0.2 -9.81"/>
  <worldbody>
    <body name="cart" pos="0.1 0.2 1" euler="10 20 30">
      <joint name="rail" type="slide" axis="1 0.2 0" damping="0.5" stiffness="3" springref="0.1"/>
      <joint name="turn" type="hinge" axis="0 0.3 1" pos="0.05 0 0.1" armature="0.02"/>
      <geom type="box" size="0.1 0.07 0.05" pos="0.03 0 0.01" euler="5 0 40" mass="2"/>
      <body name="boom" pos="0.2 0 0" quat="0.9 0.1 0.3 0.1">
        <joint name="lift" type="hinge" axis="0 1 0" ref="20" stiffness="1.5"/>
        <geom name="boom" type="capsule" fromto="0 0 0 0.5 0.1 0" size="0.03" mass="0.7"/>
        <body name="end" pos="0.5 0.1 0">
          <geom type="sphere" size="0.06" mass="0.4"/>
          <body pos="0 0 -0.1">
            <joint name="reach" type="slide" axis="0 0.1 -1"/>
            <geom type="sphere" size="0.05" mass="0.3"/>
          </body>
        </body>
      </body>
      <body name="tail" pos="-0.2 0 0">
        <joint name="wag" type="hinge" axis="1 0 1" pos="0 0.02 0"/>
        <geom type="capsule" fromto="0 0 0 -0.3 0 0" size="0.02" mass="0.2"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="servo" joint="lift" kp="4" kv="0.3"/>
    <motor name="pull" joint="rail" gear="2"/>
    <velocity name="hold" joint="wag" kv="0.1"/>
  </actuator>
</mujoco>
"""


GEARED = CRANE.replace("<motor", '<general joint="reach" {}/><motor')


def written(folder, text):
    file = folder / "model.xml"
    file.write_text(text)
    return file


def gain(spec, value):
    spec.actuator("servo").gainprm = [value, *[0] * 9]


@pytest.fixture
def crane(tmp_path):
    length = ModelParameter(
        0.45, 0.55, {"geom/boom.fromto[3]": 1, "body/end.pos[0]": 1}, "m", "of the boom"
    )
    parameters = {"length": length, "gain": ModelParameter(2.0, 6.0, gain)}
    more = {
        "start": [0.1, 0.2, 0.5, -0.05, 0.3],
        "control": (0.3, -0.2, 0.1),
        "duration": 0.4,
        "spread": 0.1,
    }
    return MuJoCo(written(tmp_path, CRANE), context=parameters, name="crane", **more)


def test_the_contract_of_systems(crane):
    check_system(crane)


def test_the_field_is_qacc(crane):
    """Hinges and slides off centre, several on one body, springs, servos, tilted inertia: MuJoCo's
    acceleration.
    """
    rng, c = np.random.default_rng(0), np.array([[0.45, 2.0], [0.5, 5.0], [0.55, 6.0]])
    q, v = rng.normal(size=(2, 3, 7, 5))
    ours = crane.field(torch.from_numpy(c))(0.0, torch.from_numpy(q), torch.from_numpy(v)).numpy()
    for k in range(3):
        model = crane.compiled(c[k])
        data = mujoco.MjData(model)
        for i in range(7):
            data.qpos[:], data.qvel[:], data.ctrl[:] = q[k, i], v[k, i], (0.3, -0.2, 0.1)
            mujoco.mj_forward(model, data)
            assert np.abs(data.qacc - ours[k, i]).max() < 1e-8
            full = np.zeros((5, 5))
            mujoco.mj_fullM(model, data, full)
            weighed = crane.metric(torch.from_numpy(c[k]))(
                torch.from_numpy(q[k, i]), torch.eye(5).double()
            )
            assert np.abs(full - weighed.numpy()).max() < 1e-10


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"/>', '"><flag gravity="disable"/></option>'),
        ('"/>', '"><flag spring="disable" actuation="disable"/></option>'),
        ('timestep="0.002"', 'timestep="0.002" actuatorgroupdisable="0"'),
        ("<motor", '<general joint="turn" gainprm="2" biastype="none" biasprm="1 -2 -3"/><motor'),
        ('gear="2"', 'gear="2" damping="0.3"'),
    ],
)
def test_the_field_knows_what_a_file_switches_off_and_adds(tmp_path, old, new):
    more = {"control": [0.3] * (4 if "general" in new else 3), "start": [0.1, 0.2, 0.5, -0.05, 0.3]}
    crane = MuJoCo(written(tmp_path, CRANE.replace(old, new, 1)), context={}, duration=0.01, **more)
    data = crane.dataset("test")
    q, v, a = (
        torch.from_numpy(data[name].values) for name in ("state", "velocity", "acceleration")
    )
    assert float((crane.field()(0.0, q, v) - a).abs().max()) < 1e-8


def test_twenty_trajectories_take_less_than_a_second_and_a_projection_reduces_them(crane):
    system, started = (
        MuJoCo(crane.path, context={}, dt=0.004, duration=1.6, spread=0.3),
        time.process_time(),
    )
    data = system.dataset("train", seed=0)
    assert time.process_time() - started < 1.0
    assert dict(data.sizes) == {"trajectory": 20, "time": 400, "component": 5}
    assert list(data.component.values) == ["rail", "turn", "lift", "reach", "wag"]
    assert data.attrs["step"] == 0.002  # the timestep of the file, between samples at every 0.004
    pod = romkit.fit("pod", data.isel(time=slice(None, None, 8)), latent_dim=5)
    run = romkit.rollout(system, pod, duration=0.1, engine="torch")
    assert (
        float(run.nrmse.max()) < 1e-3
    )  # five latents hold five joints: steps of 0.004 against 0.002 are left


def test_contacts_give_data_only(tmp_path):
    ball = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="1 1 0.1"/><body pos="0 0 0.3">
      <joint name="height" type="slide" axis="0 0 1"/><geom name="ball" type="sphere" size="0.1" mass="1"/></body>
      </worldbody></mujoco>"""
    radius = {"radius": ModelParameter(0.05, 0.15, {"geom/ball.size": 1})}
    bouncing = MuJoCo(written(tmp_path, ball), context=radius, contacts=True, duration=1.0, dt=0.01)
    data = bouncing.dataset(radius=[0.05, 0.1])
    assert data.state.values.min() > -0.28  # it falls through without
    assert data.state.values.min() < -0.19
    assert np.isfinite(data.acceleration.values).all()
    refused("system", bouncing.field, radius=0.1)
    # without contacts its radius moves nothing
    falling = MuJoCo(bouncing.path, context={}, contacts=False, duration=1.0, dt=0.01).dataset()
    assert falling.state.values.min() < -4


def test_free_and_ball_joints_have_quaternions_whose_rates_are_recorded(tmp_path):
    """A box that tumbles with a ball joint's rod on it: rates and accelerations against differences
    of the states.
    """
    box = """<mujoco><option timestep="0.001" gravity="0 0 -1"/><worldbody><body pos="0 0 1"><freejoint name="box"/>
      <geom name="box" type="box" size="0.1 0.2 0.3" mass="2"/><body pos="0 0 0.3" name="rod"><joint name="socket"
      type="ball"/><geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.02" mass="0.5"/></body></body></worldbody>
      </mujoco>"""
    mass = {"mass": ModelParameter(1, 3, {"geom/box.mass": 1})}
    tumbling = MuJoCo(written(tmp_path, box), context=mass, duration=0.5, dt=0.001)
    assert tumbling.state_names[:4] == ("box_x", "box_y", "box_z", "box_w")
    assert tumbling.state_units == (*("m",) * 3, *("1",) * 8)
    q0 = tumbling.initial_state(torch.tensor([[2.0]]), None)
    spin = np.random.default_rng(0).normal(size=(1, 9))
    times = torch.arange(500, dtype=torch.float64) * 1e-3
    parts = (q0, torch.from_numpy(tumbling.joints.rates(q0.numpy(), spin)))
    motion = tumbling.simulate(parts, torch.tensor([[2.0]]), times)
    q, v, a = (x[0].numpy() for x in (motion.state, motion.velocity, motion.acceleration))
    for k in (3, 7):
        assert np.allclose(np.linalg.norm(q[:, k : k + 4], axis=1), 1, rtol=0, atol=1e-12)
    assert np.allclose((q[2:] - q[:-2]) / 2e-3, v[1:-1], rtol=0, atol=1e-5)
    assert np.allclose((v[2:] - v[:-2]) / 2e-3, a[1:-1], rtol=0, atol=1e-4)
    assert np.allclose(
        tumbling.joints.of_states(np.concatenate([q, v], -1)[:1])[1], spin, rtol=0, atol=1e-12
    )
    refused("one with ball or free joints", tumbling.field, mass=2)
    data = tumbling.dataset(mass=[1.0, 2.0])
    assert np.isfinite(romkit.fit("pod", data, latent_dim=3)(data)(data).state.values).all()


FREE = '<mujoco><worldbody><body><freejoint/><geom size="0.1"/></body></worldbody></mujoco>'
TWICE = """<mujoco><worldbody><body><joint name="q1"/><geom size="0.1"/><body><joint/><geom size="0.1"/></body></body>
    </worldbody></mujoco>"""


def test_what_cannot_be_used_is_refused(tmp_path):
    file = written(tmp_path, CRANE)
    for sets, fact in (
        ({"boom.fromto": 1}, "sets"),
        (
            {"geom/bom.mass": 1},
            "sets",
        ),
        ({"geom/boom.fromto[6]": 1}, "sets"),
        (
            {"geom/boom.name": -1},
            "sets",
        ),
        ({"geom/boom.size[0]": -1}, "context"),
    ):
        refused(fact, MuJoCo, file, context={"p": ModelParameter(1, 2, sets)})
    refused("high", ModelParameter, 2, 1, {})
    limited = CRANE.replace('stiffness="1.5"', 'range="-90 90" limited="true" frictionloss="0.1"')
    for text, fact in (
        (limited, "one with limits of joints, dry friction"),
        (GEARED.format('armature="0.1"'), "one with armature of actuators"),
    ):
        refused(fact, MuJoCo(written(tmp_path, text), context={}).field)
    for text, fact, error in (
        (
            GEARED.format('dyntype="filter"'),
            "model",
            InputError,
        ),
        (TWICE, "model", InputError),
        ("<mujoco><worldbody/></mujoco>", "model", InputError),
        ("<mujoco><worldbody>", "is no MJCF", FileError),
    ):
        refused(fact, MuJoCo, written(tmp_path, text), context={}, error=error)
    refused("start", MuJoCo, written(tmp_path, FREE), context={}, start=[0] * 7)
    refused("no such file", MuJoCo, tmp_path / "none.xml", context={}, error=FileError)
