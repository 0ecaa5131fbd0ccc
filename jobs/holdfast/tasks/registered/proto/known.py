"""Files that every .proto file may import without a reference: what they declare, in short."""

from __future__ import annotations

from holdfast.tasks.registered.proto.files import WRAPPERS

__all__ = ["KNOWN"]

_WRAPPERS = "".join(
    f"message {name.rpartition('.')[2]} {{ {scalar} value = 1; }} "
    for name, scalar in WRAPPERS.items()
)
KNOWN = {
    "google/protobuf/wrappers.proto": f"package google.protobuf; {_WRAPPERS}",
    "google/protobuf/timestamp.proto": (
        "package google.protobuf; message Timestamp { int64 seconds = 1; int32 nanos = 2; }"
    ),
    "google/protobuf/duration.proto": (
        "package google.protobuf; message Duration { int64 seconds = 1; int32 nanos = 2; }"
    ),
    "google/protobuf/empty.proto": "package google.protobuf; message Empty {}",
    "google/protobuf/any.proto": (
        "package google.protobuf; message Any { string type_url = 1; bytes value = 2; }"
    ),
    "google/protobuf/field_mask.proto": (
        "package google.protobuf; message FieldMask { repeated string paths = 1; }"
    ),
    "google/type/date.proto": (
        "package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }"
    ),
    "google/type/timeofday.proto": (
        "package google.type; message TimeOfDay "
        "{ int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"
    ),
    "confluent/type/decimal.proto": (
        "package confluent.type; "
        "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
    ),
    "confluent/meta.proto": (
        "package confluent; "
        "message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }"
    ),
    "google/protobuf/struct.proto": (
        "package google.protobuf; message Struct { map<string, Value> fields = 1; } "
        "message Value { oneof kind { NullValue null_value = 1; double number_value = 2; "
        "string string_value = 3; bool bool_value = 4; Struct struct_value = 5; "
        "ListValue list_value = 6; } } enum NullValue { NULL_VALUE = 0; } "
        "message ListValue { repeated Value values = 1; }"
    ),
    "google/type/money.proto": (
        "package google.type; "
        "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }"
    ),
    "google/type/latlng.proto": (
        "package google.type; message LatLng { double latitude = 1; double longitude = 2; }"
    ),
}
