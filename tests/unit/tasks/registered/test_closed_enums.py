"""Enums of proto2, which are closed: beside Google's own library."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pool, message_factory

from holdfast.judge.read.proto_files import files_of
from holdfast.tasks.registered.proto.columns import columns_of
from holdfast.tasks.registered.proto.parse import parse_proto
from holdfast.tasks.registered.proto.read import MessageReader
from holdfast.tasks.registered.proto.write import MessageWriter
from holdfast.types.columns.schemas import Schema, SchemaKind

_CLOSED = """
syntax = "proto2";
message P {
  enum E { ONE = 1; TWO = 2; NONE = 0; }
  enum Z { ZERO = 0; FIVE = 5; }
  optional E e = 1;
  optional E other = 2 [default = TWO];
  repeated E list = 3;
  oneof o { E member = 4; int32 number = 5; }
  map<string, Z> map = 6;
}
"""


@pytest.mark.parametrize("described", [False, True])
def test_a_number_that_a_proto2_enum_lacks_is_as_if_it_were_not_there(described: bool) -> None:
    """Beside Google's library: what is not there is the first value, whatever its number."""
    (compiled,) = files_of(Schema(SchemaKind.PROTOBUF, _CLOSED))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(compiled.SerializeToString())
    kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("P"))
    text = base64.b64encode(compiled.SerializeToString()).decode() if described else _CLOSED
    file = parse_proto(text)
    columns = columns_of(file, file.named(""))
    messages = [
        b"", b"\x08\x09\x10\x09", b"\x08\x00\x10\x00", b"\x18\x09\x18\x02\x18\x01\x18\x09",
        b"\x18\x09", b"\x1a\x03\x02\x07\x00", b"\x20\x09", b"\x20\x02", b"\x28\x00",
        b"\x32\x05\x0a\x01k\x10\x05\x32\x05\x0a\x01k\x10\x09\x32\x05\x0a\x01l\x10\x09",
        b"\x32\x03\x0a\x01k",
    ]  # fmt: skip
    arrays = MessageReader(file, file.named(""), columns).read(pa.array(messages, pa.binary()))
    found = {c.name: array for c, array in zip(columns, arrays, strict=True)}
    for array in arrays:
        array.validate(full=True)
    for place, message in enumerate(messages):
        theirs = kind.FromString(message)
        member = theirs.WhichOneof("o")
        assert {name: array[place].as_py() for name, array in found.items()} == {
            "E": kind.E.Name(theirs.e),
            "OTHER": kind.E.Name(theirs.other),
            "LIST": list(map(kind.E.Name, theirs.list)),
            "MAP": [(key, kind.Z.Name(value)) for key, value in theirs.map.items()],
            "O_0": member and {
                "MEMBER": kind.E.Name(theirs.member) if member == "member" else None,
                "NUMBER": theirs.number if member == "number" else None,
            },
        }  # fmt: skip
    assert found["E"][0].as_py() == "ONE"
    assert found["LIST"][3].as_py() == ["TWO", "ONE"]


def test_a_proto2_enum_s_value_0_is_written_where_another_one_is_the_first() -> None:
    file = parse_proto("message P { optional E e = 1; enum E { ONE = 1; NONE = 0; } }")
    columns = columns_of(file, file.named(""))
    names = pa.array(["NONE", "ONE", None])
    written = MessageWriter(file, file.named(""), columns).write([names])
    assert written.to_pylist() == [b"\x08\x00", b"\x08\x01", b""]
    (again,) = MessageReader(file, file.named(""), columns).read(written)
    assert again.to_pylist() == ["NONE", "ONE", "ONE"]
