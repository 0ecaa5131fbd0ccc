"""Records with a schema's id in which bytes are changed, put in or cut off: each hurts itself."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.chaos.load.records import LoadShape, RecordMaker
from holdfast.ingest.formats import value_decoder
from holdfast.sql import compile_text
from holdfast.transport.registry.memory import MemoryRegistry
from holdfast.types.statements.sources import Format
from tests.unit.chaos.test_records import EVERY_TYPE, NESTED

_RECORDS = 30


def _made(form: Format) -> tuple[Any, list[bytes]]:
    schemas = MemoryRegistry()
    columns = f"{EVERY_TYPE}, {NESTED}"
    text = f"CREATE STREAM s ({columns}) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='{form}');"
    source = compile_text(text, schemas=schemas).sources[0]
    maker = RecordMaker(source, LoadShape(), schemas)
    records = [maker.make(n, 1, 1_700_000_000_000).value or b"" for n in range(_RECORDS)]
    values = source.value_columns
    return value_decoder(form, values, values, schemas=schemas), records


_KINDS = {form: _made(form) for form in (Format.AVRO, Format.JSON_SR, Format.PROTOBUF)}


def _damaged(record: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(record) + 1)
    match chance.randrange(4):
        case 0:
            return record[:at]
        case 1:
            return record[:at] + chance.randbytes(chance.randrange(1, 9)) + record[at:]
        case 2:
            return record[:at] + record[at + chance.randrange(1, 9) :]
    flipped = bytearray(record)
    for _ in range(chance.randrange(1, 4)):
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


@pytest.mark.parametrize("form", list(_KINDS))
@given(hurt=st.sets(st.integers(0, _RECORDS - 1)), seed=st.integers(0, 1 << 32))
def test_other_records_keep_their_values(form: Format, hurt: set[int], seed: int) -> None:
    decoder, records = _KINDS[form]
    chance = random.Random(seed)
    whole = decoder.decode(records)
    assert not whole.bad
    broken = [_damaged(r, chance) if i in hurt else r for i, r in enumerate(records)]
    found = decoder.decode(broken)
    assert found.bad.keys() <= hurt
    for column, before in zip(found.columns, whole.columns, strict=True):
        column.validate(full=True)
        assert (len(column), column.type) == (_RECORDS, before.type)
        for place in range(_RECORDS):
            if place not in hurt:
                assert column[place] == before[place]
            elif place in found.bad:
                assert not column[place].is_valid
