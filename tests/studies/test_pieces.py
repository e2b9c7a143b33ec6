from studies.pieces import complete, stored


def test_pieces_that_are_there_are_not_computed_again(tmp_path):
    file, calls = tmp_path / "results.json", []
    pieces = {name: lambda name=name: calls.append(name) or {"number": len(calls)} for name in ("one", "two")}
    complete(pieces, file, "two")
    complete(pieces, file, more={"seed": 0})
    assert calls == ["two", "one"]
    assert stored(file)["one"]["number"] == 2
    assert stored(file)["one"]["seed"] == 0
    assert {"device", "versions"} <= stored(file)["two"].keys()
