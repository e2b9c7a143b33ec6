from studies.pieces import complete, stored


def test_pieces_that_are_there_are_not_computed_again(tmp_path):
    file, calls = tmp_path / "results.json", []
    pieces = {name: lambda name=name: calls.append(name) or {"number": len(calls)} for name in ("one", "two", "two, b")}
    complete(pieces, file, ["two"])
    complete(pieces, file, ["tw"], more={"seed": 0})
    complete(pieces, file)
    assert calls == ["two", "two, b", "one"]
    assert stored(file)["two, b"]["seed"] == 0
    assert {"device", "versions"} <= stored(file)["one"].keys()
