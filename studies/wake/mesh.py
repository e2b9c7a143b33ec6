"""Makes the meshes of `romkit.systems.CylinderWake` with gmsh: python -m studies.wake.mesh."""

from pathlib import Path

import gmsh
import numpy as np

import romkit.systems.cylinder_wake.flow as discretisation

LENGTH = 2.2
SIZES = {"coarse": (0.02, 0.1), "standard": (0.01, 0.06), "fine": (0.006, 0.04)}
"""Lengths of edges at the cylinder and far away, in m."""


def make(near: float, far: float) -> tuple[np.ndarray, np.ndarray]:
    """Points (2, P) and triangles (3, T) of the channel without the cylinder."""
    gmsh.initialize()
    try:
        gmsh.option.setNumber("General.Terminal", 0)
        for source in ("ExtendFromBoundary", "FromPoints", "FromCurvature"):
            gmsh.option.setNumber(f"Mesh.MeshSize{source}", 0)
        shapes, (x, y), r = gmsh.model.occ, discretisation.CENTRE, discretisation.RADIUS
        channel = shapes.addRectangle(0, 0, 0, LENGTH, discretisation.HEIGHT)
        shapes.cut([(2, channel)], [(2, shapes.addDisk(x, y, 0, r, r))])
        shapes.synchronize()
        centres = {tag: shapes.getCenterOfMass(1, tag)[:2] for _, tag in gmsh.model.getEntities(1)}
        circle = [tag for tag, centre in centres.items() if np.hypot(centre[0] - x, centre[1] - y) < 1.2 * r]
        field = gmsh.model.mesh.field
        distance, size = field.add("Distance"), field.add("Threshold")
        field.setNumbers(distance, "CurvesList", circle)
        field.setNumber(distance, "Sampling", 200)
        for name, value in (("InField", distance), ("SizeMin", near), ("SizeMax", far)):
            field.setNumber(size, name, value)
        field.setNumber(size, "DistMin", 0.02)
        field.setNumber(size, "DistMax", 0.4)
        field.setAsBackgroundMesh(size)
        gmsh.model.mesh.generate(2)
        tags, places, _ = gmsh.model.mesh.getNodes()
        index = np.zeros(int(tags.max()) + 1, int)
        index[tags.astype(int)] = np.arange(len(tags))
        triangles = index[gmsh.model.mesh.getElementsByType(2)[1].astype(int)].reshape(-1, 3)
    finally:
        gmsh.finalize()
    used, triangles = np.unique(triangles, return_inverse=True)
    return np.ascontiguousarray(places.reshape(-1, 3)[used, :2].T), np.ascontiguousarray(triangles.reshape(-1, 3).T)


def main() -> None:
    """Writes the meshes into the package."""
    for name, sizes in SIZES.items():
        points, triangles = make(*sizes)
        file = Path(discretisation.__file__).with_name(f"mesh-{name}.npz")
        np.savez_compressed(file, points=points, triangles=triangles.astype(np.int32))
        print(f"{file.name}: {points.shape[1]} points, {triangles.shape[1]} triangles")


if __name__ == "__main__":
    main()
