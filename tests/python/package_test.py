"""What the package promises on paper: stubs, docstrings, exceptions, arrows between the layers."""

import ast
import builtins
import inspect
import pathlib
import pickle

import hurray
import numpy as np
import pytest

STUB = pathlib.Path(hurray.__file__).with_name("__init__.pyi")
CLASSES = ["Tensor", "Client", "Publication", "Watch", "Event", "Capsule", "Error"]


def stub_members(node):
    found = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            found[item.name] = item
        elif isinstance(item, ast.AnnAssign):
            found[item.target.id] = item
        elif isinstance(item, ast.ClassDef):
            found[item.name] = item
    return found


def parameters(function):
    names = [argument.arg for argument in function.args.posonlyargs + function.args.args + function.args.kwonlyargs]
    return [name for name in names if name != "self"]


def test_the_stub_has_the_names_that_the_package_has():
    stub = stub_members(ast.parse(STUB.read_text(encoding="utf-8")))
    assert set(stub) == set(hurray.__all__) | {"__version__", "__all__"}
    assert all(hasattr(hurray, name) for name in stub)
    assert STUB.with_name("py.typed").exists()
    for name, node in stub.items():
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
            bases = [ast.unparse(base).removeprefix("builtins.") for base in node.bases]
            assert [base.__name__ for base in getattr(hurray, name).__bases__] == bases


@pytest.mark.parametrize("name", CLASSES)
def test_the_stub_has_the_members_that_each_class_has(name):
    stub = stub_members(stub_members(ast.parse(STUB.read_text(encoding="utf-8")))[name])
    cls = getattr(hurray, name)
    public = {member for member in vars(cls) if not member.startswith("_")}
    if hasattr(cls, "_fields"):
        assert list(stub) == list(cls._fields)
        return
    attributes = {"Publication": {"name", "capsule", "version"}, "Error": {"message", "status"}}.get(name, set())
    assert {member for member in stub if not member.startswith("_")} == public | attributes
    for member, node in stub.items():
        if not isinstance(node, ast.FunctionDef):
            continue
        actual = inspect.getattr_static(cls, member)
        assert (isinstance(actual, property)) == bool(node.decorator_list), member
        if inspect.isfunction(actual):
            expected = [each for each in inspect.signature(actual).parameters if each != "self"]
            found = parameters(node) + ([node.args.vararg.arg] if node.args.vararg else [])
            assert found == expected, member


def test_functions_of_the_stub_have_the_right_parameters():
    stub = stub_members(ast.parse(STUB.read_text(encoding="utf-8")))
    for name in ("connect", "hold"):
        assert parameters(stub[name]) == list(inspect.signature(getattr(hurray, name)).parameters)


@pytest.mark.parametrize("name", [name for name in hurray.__all__])
def test_everything_public_is_documented(name):
    found = getattr(hurray, name)
    assert inspect.getdoc(found) and found.__module__ == "hurray"
    if not inspect.isclass(found) or hasattr(found, "_fields"):
        return
    for member, value in vars(found).items():
        if not member.startswith("_") and (callable(value) or isinstance(value, property)):
            assert inspect.getdoc(getattr(found, member)), member


def test_exceptions_are_what_python_programs_expect():
    for name, base in {
        "TimeoutError": builtins.TimeoutError,
        "PermissionError": builtins.PermissionError,
        "NotFoundError": LookupError,
        "InvalidArgumentError": ValueError,
        "DescriptorError": ValueError,
        "ConnectionLostError": ConnectionError,
        "DaemonUnavailableError": ConnectionError,
    }.items():
        assert issubclass(getattr(hurray, name), (base, hurray.Error)) and issubclass(getattr(hurray, name), base)


def test_every_status_of_the_header_has_its_exception():
    from hurray import _hurray

    for status in [*range(-11, 0), *range(-50, -31)]:
        assert _hurray.status_string(status).startswith("HURRAY_ERR_")
        error = _hurray.make_error(status, "what went wrong")
        assert isinstance(error, hurray.Error) and str(error) == "what went wrong" and error.status == status
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.status) == (type(error), str(error), status)
        made = type(error)("what went wrong", status)
        assert (vars(made), made.args) == (vars(error), error.args)
    for name, number in {"NotFoundError": -32, "TimeoutError": -34, "LimitError": -38, "ClosedError": -46}.items():
        assert type(_hurray.make_error(number, "")) is getattr(hurray, name)
    for status in (-36, -37, -38):
        assert type(_hurray.make_error(status, "")) is hurray.LimitError


def test_handles_are_made_by_the_package_only(client):
    client.publish("made", np.zeros(1), copy=True)
    tensor = client.attach("made")
    with pytest.raises(TypeError):
        hurray.Tensor()
    with pytest.raises(TypeError):
        pickle.dumps(tensor)
