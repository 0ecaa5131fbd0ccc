"""Schemas of Protobuf as descriptors, by Google's own compiler: the judge's, not the engine's.

The compiler runs in a process of its own, so that what it says can be told.
"""

from __future__ import annotations

import binascii
import importlib.util
import subprocess
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from holdfast.config.commands import module_command
from holdfast.judge.values import Untranslatable
from holdfast.types.columns.schemas import Schema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

__all__ = ["files_of"]

_MAIN = "holdfast_judge_main.proto"
_COMPILE_S = 60
# What Confluent's registry lets every schema import.  ksqlDB uses the annotation without an import
# of its own, so the decimal's file hands it on.
_CONFLUENT = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        import public "confluent/meta.proto";
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
}


def files_of(schema: Schema) -> Sequence[FileDescriptorProto]:
    """The schema's file, last, after all those that it imports.

    Raises:
        Untranslatable: the compiler does not take it.
    """
    texts: dict[str, str] = {}
    described: list[FileDescriptorProto] = []
    for name, text in (*schema.references, (_MAIN, schema.text)):
        found = _described(name, text)
        if found is None:
            texts[name] = text
        else:
            described.append(found)
    if _MAIN in texts:
        return _compiled(texts)
    known = {each.name for each in described}
    wanted = dict.fromkeys(d for each in described for d in each.dependency if d not in known)
    lines = ['syntax = "proto3";', *(f'import "{name}";' for name in wanted)]
    return [*_compiled(texts | {_MAIN: "\n".join(lines)})[:-1], *described]


def _described(name: str, text: str) -> FileDescriptorProto | None:
    """The file of a descriptor in base64, as Python's clients register it; None: it is text."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        found = FileDescriptorProto.FromString(b64decode(text.strip(), validate=True))
    except (DecodeError, binascii.Error, ValueError):
        return None
    found.name = name
    return found if text.strip() else None


def _compiled(texts: dict[str, str]) -> Sequence[FileDescriptorProto]:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    with TemporaryDirectory(prefix="holdfast-judge-") as made:
        folder = Path(made)
        for name, text in (_CONFLUENT | texts).items():
            _put(folder / "files", name, text)
        out = folder / "set"
        # -P: a file beside the process, such as a schema's, is no Python module.
        command = module_command("grpc_tools.protoc", f"-I{folder / 'files'}")
        command += [f"-I{_google()}", "--include_imports", f"--descriptor_set_out={out}", _MAIN]
        try:
            ran = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=_COMPILE_S
            )
        except subprocess.TimeoutExpired:
            raise Untranslatable(
                f"a Protobuf schema that protoc does not compile in {_COMPILE_S} s"
            ) from None
        if ran.returncode:
            raise Untranslatable(f"a Protobuf schema that protoc refuses: {ran.stderr[:300]}")
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


def _put(folder: Path, name: str, text: str) -> None:
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or "\0" in name:
        raise Untranslatable(f"a Protobuf schema that imports {name!r}")
    path = folder / parts
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _google() -> Path:
    """Where the package of Google's common types has its files."""
    found = importlib.util.find_spec("google.type")
    assert found is not None, "googleapis-common-protos is installed with ptars"
    places = list(found.submodule_search_locations or ())
    return Path(places[0]).parents[1]
