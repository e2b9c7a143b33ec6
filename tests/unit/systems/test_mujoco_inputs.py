"""MuJoCo models of users: parameters without effect, starts, commands, and states that data lack."""

import warnings

import mujoco
import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.core.errors import DivergenceWarning, FileError, InputError
from romkit.systems import ModelParameter, MuJoCo

ARM = """<mujoco><option timestep="0.002" integrator="RK4"/>
  <default><joint armature="0.01"/><default class="fingers"><joint damping="0.1"/>
    <default class="tips"><joint stiffness="2"/></default></default></default>
  <worldbody><body name="rod"><joint name="h" class="fingers" axis="0 1 0"/>
    <geom name="link" type="capsule" size=".03" fromto="0 0 0 0 0 -.8" mass="1.5"/>
    <body name="tip" pos="0 0 -.8"><joint name="k" class="tips" axis="0 1 0"/>
      <geom name="end" type="sphere" size=".05"/>
      <body pos="0 0 -.2"><joint name="own" class="fingers" axis="0 1 0" damping=".3"/>
        <geom size=".04"/></body></body></body></worldbody>
  <actuator><motor name="m" joint="h"/><position name="p" joint="k" kp="3"/></actuator></mujoco>"""

FLOOR = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="5 5 .1" {}/>
  <body name="ball" pos="0 0 1"><freejoint name="f"/><geom name="g" type="sphere" size=".1" mass="1"/>
  </body>{}</worldbody>{}</mujoco>"""

SERVO = """<mujoco><option timestep="0.002" integrator="RK4"/><worldbody><body><joint name="h" axis="0 1 0"
  damping="1"/><geom type="capsule" size=".03" fromto="0 0 0 .5 0 0" mass="1"/></body></worldbody>
  <actuator>{}</actuator>{}</mujoco>"""


@pytest.fixture
def write(tmp_path):
    def written(text):
        file = tmp_path / "model.xml"
        file.write_text(text)
        return file

    return written


def parameter(sets, low=0.5, high=2.0):
    return {"p": ModelParameter(low, high, sets)}


@pytest.mark.parametrize(
    "sets",
    [
        {"geom/link.friction[0]": 1},  # nothing touches
        {"geom/end.rgba[0]": 0.5},
        {"geom/end.size[1]": 1},  # a sphere has one radius
        {"joint/h.springref": 1},  # of a joint without a spring
        {"geom/link.mass": 1, "geom/link.density": 100},  # the second target alone
        {"actuator/m.gear[0]": 1},  # without a command
        {"default/tips.geom.density": 1000},  # of a class without such elements
        lambda spec, value: None,
    ],
)
def test_a_parameter_that_changes_nothing_is_refused(write, sets):
    with pytest.raises(InputError) as caught:
        MuJoCo(write(ARM), context=parameter(sets))
    assert caught.value.argument == "context p"


def test_where_a_free_body_is_placed_matters_only_where_it_starts(write):
    height = parameter({"body/ball.pos[2]": 1})
    file = write(FLOOR.format("", "", ""))
    data = MuJoCo(file, context=height, contacts=True).dataset(p=[0.5, 2.0], duration=0.01)
    assert data.state.sel(component="f_z")[:, 0].values.tolist() == [0.5, 2.0]
    with pytest.raises(InputError):
        MuJoCo(file, context=height, contacts=True, start=[0, 0, 1, 1, 0, 0, 0])


@pytest.mark.parametrize(
    ("text", "sets", "position"),
    [
        (SERVO.format("", "").replace("<joint", '<joint ref="0.3"'), {"joint/h.ref": 1}, "qpos0"),
        (FLOOR.format("", "", ""), {"body/ball.pos[0]": -2}, "qpos0"),
        (
            SERVO.format("", '<keyframe><key name="home" qpos="0.7"/></keyframe>'),
            lambda spec, value: setattr(spec.key("home"), "qpos", [value]),
            "key_qpos",
        ),
    ],
)
def test_starts_are_those_of_the_context(write, text, sets, position):
    system = MuJoCo(write(text), context=parameter(sets), contacts=True)
    values = np.array([[0.5], [1.0], [1.7]])
    q, _ = system.start(torch.from_numpy(values))
    for row, value in zip(q.numpy(), values, strict=True):
        assert np.array_equal(row, np.ravel(getattr(system.compiled(value), position)))


def mujoco_run(file, steps, command=None):
    """Positions (steps + 1, nq) of MuJoCo's own loop from the first keyframe."""
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    positions = [data.qpos.copy()]
    for _ in range(steps):
        if command is not None:
            data.ctrl[:] = command(data.time)
        mujoco.mj_step(model, data)
        positions.append(data.qpos.copy())
    return np.array(positions)


@pytest.mark.parametrize(
    ("actuators", "key"),
    [
        ('<position joint="h" kp="100"/>', 'qpos="0.7" qvel="1.5" ctrl="0.7"'),
        ('<motor joint="h" gear="2"/>', 'ctrl="-0.4"'),
        ("", 'qvel="-3"'),
    ],
)
def test_a_keyframe_gives_positions_velocities_and_commands(write, actuators, key):
    file = write(SERVO.format(actuators, f"<keyframe><key {key}/></keyframe>"))
    run = romkit.simulate(MuJoCo(file, context={}), duration=1.0)
    assert np.abs(run.state.values[0] - mujoco_run(file, 500)).max() < 1e-10


def test_a_keyframe_of_a_free_body_gives_its_spin(write):
    key = '<keyframe><key qpos="0 0 2 1 0 0 0" qvel="1 0 0 0.5 2 -1"/></keyframe>'
    file = write(FLOOR.format("", "", key))
    run = romkit.simulate(MuJoCo(file, context={}, contacts=True), duration=0.2)
    assert np.abs(run.state.values[0] - mujoco_run(file, 100)).max() < 1e-10


@pytest.mark.parametrize(
    "text",
    [
        SERVO.format('<intvelocity joint="h" kp="3" actrange="-1 1"/>', ""),
        SERVO.format('<general joint="h" dyntype="filter" dynprm="0.1"/>', ""),
        SERVO.format('<position joint="h" kp="3" delay="0.05" nsample="10"/>', ""),
        FLOOR.format(
            "",
            '<body name="hand" mocap="true" pos="1 0 1"><geom size=".01"/></body>',
            '<keyframe><key mpos="0 0 3"/></keyframe>',
        ),
    ],
)
def test_states_that_data_lack_are_refused(write, text):
    with pytest.raises(InputError) as caught:
        MuJoCo(write(text), context={}, contacts=True)
    assert caught.value.argument == "model"


OTHER_BALL = '<body pos="1 0 1"><freejoint/><geom size=".1"/></body>'


@pytest.mark.parametrize(
    ("floor", "more", "contacts", "warns"),
    [
        ("", "", None, True),
        ('contype="0" conaffinity="0"', "", None, False),
        ('contype="0" conaffinity="0"', OTHER_BALL, None, True),
        ("", "", False, False),
        ("", "", True, False),
    ],
)
def test_bodies_that_would_touch_warn_where_contacts_are_off(write, floor, more, contacts, warns):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        MuJoCo(write(FLOOR.format(floor, more, "")), context={}, contacts=contacts)
    assert bool(said) == warns
    assert all("contacts" in str(each.message) for each in said)


def test_links_of_one_arm_and_switched_off_contacts_do_not_warn(write, recwarn):
    MuJoCo(write(ARM), context={})
    off = '<option><flag contact="disable"/></option><worldbody>'
    text = FLOOR.format("", "", "").replace('<option timestep="0.002"/><worldbody>', off)
    MuJoCo(write(text), context={})
    assert not len(recwarn)


@pytest.mark.parametrize(
    ("asset", "name"),
    [
        ('<mesh name="m" file="hull.stl"/>', "hull.stl"),
        ('<texture name="m" type="2d" file="wood.png"/>', "wood.png"),
        ('<hfield name="m" file="hills.png" size="1 1 1 1"/>', "hills.png"),
    ],
)
def test_a_file_that_is_missing_is_named(write, asset, name):
    body = '<worldbody><body><joint/><geom size=".1"/></body></worldbody>'
    text = f"<mujoco><asset>{asset}</asset>{body}</mujoco>"
    if "mesh" in asset:
        text = text.replace('size=".1"/>', 'type="mesh" mesh="m"/>')
    with pytest.raises(FileError) as caught:
        MuJoCo(write(text), context={})
    assert name in str(caught.value)


def test_a_model_without_a_mass_compiles_with_its_parameter(write):
    """The file alone makes no model, and with the parameter it does."""
    text = '<mujoco><worldbody><body><joint name="h"/><geom name="g" size=".1" mass="0"/></body></worldbody></mujoco>'
    system = MuJoCo(write(text), context=parameter({"geom/g.mass": 1}))
    assert system.compiled([2.0]).body_mass[1] == 2.0


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ({"option.gravity[2]": -1}, lambda m: m.opt.gravity.tolist() == [0, 0, -1.5]),
        ({"option.gravity": 2}, lambda m: m.opt.gravity.tolist() == [3, 0, -9.81]),
        (
            {"default/fingers.joint.damping": 1},  # the third joint has a damping of its own
            lambda m: m.dof_damping.tolist() == [1.5, 1.5, 0.3],
        ),
        (
            {"default/main.joint.armature": 1},
            lambda m: m.dof_armature.tolist() == [1.5, 1.5, 1.5],
        ),
        ({"default/tips.joint.stiffness": 2}, lambda m: m.jnt_stiffness.tolist() == [0, 3, 0]),
    ],
)
def test_options_and_default_classes_are_targets(write, sets, expected):
    assert expected(MuJoCo(write(ARM), context=parameter(sets)).compiled([1.5]))


@pytest.mark.parametrize(
    "target",
    [
        *("option.timestep", "option.nothing", "option.gravity[3]", "gravity"),
        *("default/none.joint.damping", "actuator/none.ctrl", "actuator/m.ctrl[1]"),
    ],
)
def test_targets_that_are_not_there_are_refused(write, target):
    with pytest.raises(InputError) as caught:
        MuJoCo(write(ARM), context=parameter({target: 1}))
    assert caught.value.argument == "sets"


def test_a_command_as_a_context_is_a_constant_command(write):
    file = write(ARM)
    varied = MuJoCo(file, context=parameter({"actuator/p.ctrl": -1}), control=[0.2, 0.0])
    run = romkit.simulate(varied, p=[0.5, 1.5], duration=0.3)
    for row, value in zip(run.state.values, (0.5, 1.5), strict=True):
        alone = romkit.simulate(MuJoCo(file, context={}, control=[0.2, -value]), duration=0.3)
        assert np.abs(alone.state.values[0] - row).max() < 1e-14
    c = torch.tensor([[0.5], [1.5]], dtype=torch.float64)
    parts = (torch.from_numpy(run[name].values[:, -1]) for name in ("state", "velocity"))
    rates = varied.field(c)(torch.tensor(0.3), *parts)
    assert float((rates - torch.from_numpy(run.acceleration.values[:, -1])).abs().max()) < 1e-9


def pendulum(u, t):
    """Angle of the arm of SERVO with a motor, by SciPy at tight tolerances."""
    model = mujoco.MjModel.from_xml_string(SERVO.format("", ""))
    data = mujoco.MjData(model)
    inertia = np.zeros((1, 1))
    mujoco.mj_forward(model, data)
    mujoco.mj_fullM(model, data, inertia)
    moment = float(model.body_mass[1] * model.body_ipos[1, 0] * 9.81)

    def rate(t, y):
        return [y[1], (u(t) + moment * np.cos(y[0]) - y[1]) / inertia[0, 0]]

    return solve_ivp(rate, (0, t[-1]), [0, 0], "DOP853", t, rtol=1e-11, atol=1e-12).y[0]


@pytest.mark.parametrize(
    "control",
    [lambda t: np.sin(5 * t), lambda t: torch.sin(5 * t), lambda t: np.array([np.sin(5 * t)])],
)
def test_commands_over_time_move_the_arm_as_scipy_says(write, control):
    system = MuJoCo(write(SERVO.format('<motor joint="h"/>', "")), context={}, control=[control])
    run = romkit.simulate(system, duration=1.0)
    exact = pendulum(lambda t: np.sin(5 * t), run.time.values)
    assert (
        np.abs(run.state.values[0, :, 0] - exact).max() < 1e-5
    )  # h²/24 of the command's curvature
    q, v = (torch.from_numpy(run[name].values[0, 100]) for name in ("state", "velocity"))
    acceleration = system.field()(torch.tensor(run.time.values[100]), q, v)
    assert abs(float(acceleration) - float(run.acceleration[0, 100, 0])) < 1e-9


def test_samples_of_a_command_are_held(write):
    file = write(SERVO.format('<motor joint="h"/>', ""))
    samples = np.random.default_rng(0).normal(size=(20, 1))
    system = MuJoCo(file, context={}, control=samples, dt=0.01)
    run = romkit.simulate(system, duration=0.3)  # beyond the last sample, which is held

    def command(t):
        return samples[min(int(t / 0.01 + 1e-6), 19)]

    assert np.abs(run.state.values[0] - mujoco_run(file, 150, command)[::5]).max() < 1e-10


@pytest.mark.parametrize(
    "control", [[0.1], [0.1, 0.2, 0.3], [[0.1]], [np.sin], ["a", "b"], [[[0.1]]]]
)
def test_commands_that_fit_no_actuator_are_refused(write, control):
    with pytest.raises(InputError) as caught:
        romkit.simulate(MuJoCo(write(ARM), context={}, control=control), duration=0.01)
    assert caught.value.argument == "control"


def test_a_lost_run_is_told_what_helps(write):
    text = SERVO.format("", "").replace('damping="1"', 'damping="50"').replace("0.002", "0.01")
    text = text.replace('integrator="RK4"', 'integrator="implicitfast"').replace(
        ' .5 0 0"', ' .1 0 0"'
    )
    file = write(text)
    with pytest.warns(DivergenceWarning) as caught:
        romkit.simulate(MuJoCo(file, context={}), duration=1.0)
    message = str(caught[0].message)
    assert "step" in message
    assert "using" not in message
    for remedy in ({"step": 1e-5}, {"contacts": True}):
        run = romkit.simulate(MuJoCo(file, context={}, **remedy), duration=0.1)
        assert np.isfinite(run.state.values).all()
