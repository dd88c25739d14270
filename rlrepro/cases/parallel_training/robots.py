"""Robots of different builds, each in its own XML file: Gymnasium's Hopper with other limbs, weights and motors."""

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import gymnasium

HOPPER = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "hopper.xml"
WATER = 1000.0  # kg/m³, MuJoCo's density where a file gives none
FALLEN = 0.56  # of the standing height, below which a hopper has fallen: Gymnasium's 0.7 m of 1.25 m


@dataclass(frozen=True)
class Build:
    """A hopper's build, as factors of Gymnasium's."""

    limb: float = 1.0  # length of thigh, leg and foot
    mass: float = 1.0
    gear: float = 1.0  # torque of the motors


def builds(count: int) -> list[Build]:
    """`count` builds: limbs growing from 0.8 to 1.2, weight and motors varied in between."""
    return [
        Build(limb=0.8 + 0.4 * k / max(1, count - 1), mass=0.8 + 0.2 * (k % 3), gear=0.9 + 0.1 * (k % 4))
        for k in range(count)
    ]


def write_robot(path: Path, build: Build) -> dict:
    """Writes the XML file of one robot. Returns the options of gymnasium.make("Hopper-v5", ...) for it."""
    xml, standing_height = robot_xml(build)
    path.write_text(xml)
    return {"xml_file": str(path), "healthy_z_range": (FALLEN * standing_height, float("inf"))}


def robot_xml(build: Build) -> tuple[str, float]:
    """One robot in MuJoCo's XML, and the height of its torso in metres when it stands."""
    root = ElementTree.parse(HOPPER).getroot()
    root.find("./default/geom").set("density", str(WATER * build.mass))
    for motor in root.iterfind("./actuator/motor"):
        motor.set("gear", str(float(motor.get("gear")) * build.gear))
    torso, hip = root.find(".//body[@name='torso']"), root.find(".//body[@name='thigh']")
    for element in hip.iter():
        if element is not hip:
            element.set("pos", _scaled(element.get("pos", "0 0 0"), build.limb))
        if element.tag == "geom":
            radius, half_length = element.get("size").split()
            element.set("size", f"{radius} {_scaled(half_length, build.limb)}")
    height, hip_below = (float(body.get("pos").split()[2]) for body in (torso, hip))
    standing_height = -hip_below + (height + hip_below) * build.limb  # the hip moves with the length of the leg
    torso.set("pos", f"0 0 {standing_height}")
    for name in ("rootx", "rootz"):
        torso.find(f"joint[@name='{name}']").set("pos", f"0 0 {-standing_height}")
    torso.find("joint[@name='rootz']").set("ref", str(standing_height))
    return ElementTree.tostring(root, encoding="unicode"), standing_height


def _scaled(numbers: str, factor: float) -> str:
    return " ".join(str(float(number) * factor) for number in numbers.split())
