"""One sentence on each function, and the reference that is made of them."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.sql.expressions.lambdas import LAMBDA_SIGNATURES
from holdfast.sql.functions.catalog import function_names, lookup_function
from holdfast.sql.functions.table_functions import TABLE_FUNCTIONS
from holdfast.tasks.aggregates import registry
from holdfast.tasks.functions.user import user_functions

__all__ = ["Entry", "reference"]

_SCALAR = """
ABS: The magnitude of a number.
ACOS: The angle, in radians, whose cosine this is.
ARRAYS_OVERLAP: Whether two arrays have an element in common.
ARRAY_CONCAT: The elements of both arrays; a NULL array counts as none.
ARRAY_CONTAINS: Whether an array has an element.
ARRAY_DISTINCT: Each element once, in the order of their first place.
ARRAY_EXCEPT: The distinct elements of the first array that are not in the second.
ARRAY_INTERSECT: The distinct elements that are in both arrays.
ARRAY_JOIN: The elements as one text, with a comma or another text between them.
ARRAY_LENGTH: How many elements an array has.
ARRAY_MAX: The greatest element.
ARRAY_MIN: The least element.
ARRAY_POSITION: The place of an element, from 1; 0 if it is not there.
ARRAY_REMOVE: The array without all elements that equal a value.
ARRAY_SORT: The elements in order, 'ASC' or 'DESC', NULLs last.
ARRAY_UNION: The distinct elements of both arrays.
ASCII: The code of the first character.
ASIN: The angle, in radians, whose sine this is.
AS_MAP: A map of the first array's keys to the second array's values.
AS_VALUE: A copy of a key column for the value.
ATAN: The angle, in radians, whose tangent this is.
ATAN2: The angle, in radians, of the point (x, y), given as y, x.
BASE64: Bytes as base64 text.
BIGINT_FROM_BYTES: The BIGINT of eight bytes, 'BIG_ENDIAN' or 'LITTLE_ENDIAN'.
CBRT: The cube root.
CEIL: The least whole number that is no less.
CEILING: The least whole number that is no less, as a BIGINT.
CHAR_LENGTH: How many characters a text has.
CHR: The character of a code point, or of an escape such as '\\u004b'.
COALESCE: The first argument that is not NULL.
CONCAT: The arguments joined; NULLs are left out.
CONCAT_WS: The arguments joined with the first one between them; NULLs are left out.
CONTAINS: Whether a text is within another.
CONVERT_TZ: A timestamp's clock, moved from one time zone to another.
COS: The cosine of an angle in radians.
COSH: The hyperbolic cosine.
COT: The cotangent of an angle in radians.
CRC32: The CRC-32 of a text.
DATEADD: A date moved forward by a number of units of time.
DATEDIFF: How many days the first date is after the second.
DATESUB: A date moved back by a number of units of time.
DATETOSTRING: A number of days since the epoch by a date pattern; use FORMAT_DATE.
DATE_ADD: A date a number of days later.
DATE_SUB: A date a number of days earlier.
DATE_TRUNC: A timestamp cut to the beginning of its 'hour', 'day', 'month' ...
DAY: The day of the month.
DAYOFMONTH: The day of the month.
DAYOFWEEK: The day of the week, Sunday is 1.
DAYOFYEAR: The day of the year.
DEGREES: Radians as degrees.
DOUBLE_FROM_BYTES: The DOUBLE of eight bytes, 'BIG_ENDIAN' or 'LITTLE_ENDIAN'.
ELT: The argument at a place, from 1.
ENCODE: A text from one encoding ('hex', 'utf8', 'ascii', 'base64') to another.
ENDSWITH: Whether a text ends with another.
ENTRIES: A map's entries as structs of K and V, by key if the flag says so.
EXP: e to the power of a number.
EXTRACTJSONFIELD: What a path such as '$.a[0].b' leads to in a JSON text.
FIELD: The place, from 1, of the first argument among the others; 0 if it is none of them.
FLATTEN: An array of arrays as one array.
FLOOR: The greatest whole number that is no greater.
FORMAT_DATE: A date by a pattern.
FORMAT_TIME: A time by a pattern.
FORMAT_TIMESTAMP: A timestamp by a pattern, in UTC or another time zone.
FROM_BYTES: Bytes as text, by 'hex', 'utf8', 'ascii' or 'base64'.
FROM_DAYS: The date a number of days after the epoch.
FROM_UNIXTIME: The timestamp a number of milliseconds after the epoch.
GENERATE_SERIES: The whole numbers from one to another, by a step.
GEO_DISTANCE: The distance of two points, given as latitude and longitude, in 'KM' or 'MI'.
GET_JSON_OBJECT: Spark's way of EXTRACTJSONFIELD.
GREATEST: The greatest argument; NULLs are left out.
HEX: A number or text in hexadecimal digits.
HOUR: The hour of a timestamp.
HYPOT: The length of the diagonal over two sides.
IF: The second argument where the first is true, else the third.
IFNULL: The first argument, or the second where it is NULL.
INITCAP: Each word's first letter upper-case, the others lower-case.
INSTR: The place of a text in another, from a position on, the n-th time; 0 if it is not there.
INT_FROM_BYTES: The INTEGER of four bytes, 'BIG_ENDIAN' or 'LITTLE_ENDIAN'.
ISNAN: Whether a DOUBLE is not a number.
IS_JSON_STRING: Whether a text is JSON.
JSON_ARRAY_CONTAINS: Whether a JSON array has an element.
JSON_ARRAY_LENGTH: How many elements a JSON array has.
JSON_CONCAT: JSON objects as one, or JSON values as one array.
JSON_ITEMS: The elements of a JSON array, each as JSON.
JSON_KEYS: The names at the top of a JSON object.
JSON_RECORDS: The names at the top of a JSON object, and their values.
LAST_DAY: The last day of a date's month.
LCASE: A text in lower case.
LEAST: The least argument; NULLs are left out.
LEFT: The first characters.
LEN: How many characters or bytes there are.
LENGTH: How many characters a text has.
LEVENSHTEIN: How many changes make one text of another.
LN: The natural logarithm.
LOG: The natural logarithm, or the one to the base given first.
LOG10: The logarithm to the base 10.
LOG2: The logarithm to the base 2.
LOWER: A text in lower case.
LPAD: Filled up on the left to a length, or cut to it.
LTRIM: A text without the blanks it begins with.
MAP_KEYS: A map's keys.
MAP_UNION: The entries of both maps; the second one's values win.
MAP_VALUES: A map's values.
MASK: Letters and digits replaced by signs of their kind.
MASK_KEEP_LEFT: MASK for all but the first characters.
MASK_KEEP_RIGHT: MASK for all but the last characters.
MASK_LEFT: MASK for the first characters.
MASK_RIGHT: MASK for the last characters.
MD5: The MD5 of a text, in hexadecimal digits.
MINUTE: The minute of a timestamp.
MOD: The remainder, with the sign of the first number.
MONTH: The month of the year.
NULLIF: NULL where both arguments are equal, else the first.
NVL: The first argument, or the second where it is NULL.
PARSE_DATE: A date from text, by a pattern.
PARSE_TIME: A time from text, by a pattern.
PARSE_TIMESTAMP: A timestamp from text, by a pattern, in UTC or another time zone.
PARSE_URL: A part of a URL ('HOST', 'PATH' ...) as Spark names it.
PI: The number pi.
PMOD: The remainder, never negative.
POW: A number to the power of another.
POWER: A number to the power of another.
QUARTER: The quarter of the year.
RADIANS: Degrees as radians.
RANDOM: A random number of at least 0 and less than 1.
REGEXP_EXTRACT: What a regular expression, or one of its groups, first matches.
REGEXP_EXTRACT_ALL: All that a regular expression, or one of its groups, matches.
REGEXP_REPLACE: A text with all that a regular expression matches replaced.
REGEXP_SPLIT_TO_ARRAY: A text in pieces, cut where a regular expression matches.
REPLACE: A text with all places of another one replaced.
REVERSE: A text from its end.
RIGHT: The last characters.
ROUND: The nearest number of so many decimal places; halves go up.
RPAD: Filled up on the right to a length, or cut to it.
RTRIM: A text without the blanks it ends with.
SECOND: The second of a timestamp.
SHA1: The SHA-1 of a text, in hexadecimal digits.
SHA2: The SHA-2 of a text, of 224, 256, 384 or 512 bits.
SIGN: -1, 0 or 1 by a number's sign.
SIN: The sine of an angle in radians.
SINH: The hyperbolic sine.
SLICE: The elements from one place to another, from 1; NULL beyond the ends.
SOUNDEX: The Soundex code of a word.
SPLIT: A text or bytes in pieces, cut at a delimiter.
SPLIT_TO_MAP: A text in entries, and these in keys and values, cut at two delimiters.
SQRT: The square root.
STARTSWITH: Whether a text begins with another.
STRINGTODATE: Days since the epoch from text, by a pattern; use PARSE_DATE.
STRINGTOTIMESTAMP: Milliseconds since the epoch from text, by a pattern; use PARSE_TIMESTAMP.
SUBSTR: Spark's way of SUBSTRING.
SUBSTRING: What begins at a place, from 1 or from the end if negative, and has a length.
SUBSTRING_INDEX: What comes before the n-th place of a delimiter.
TAN: The tangent of an angle in radians.
TANH: The hyperbolic tangent.
TIMEADD: A time moved forward by a number of units of time.
TIMESTAMPADD: A timestamp moved forward by a number of units of time.
TIMESTAMPSUB: A timestamp moved back by a number of units of time.
TIMESTAMPTOSTRING: Milliseconds since the epoch by a pattern; use FORMAT_TIMESTAMP.
TIMESUB: A time moved back by a number of units of time.
TO_BYTES: Bytes from text, by 'hex', 'utf8', 'ascii' or 'base64'.
TO_JSON_STRING: Any value as JSON.
TRANSLATE: A text with single characters replaced by others.
TRIM: A text without the blanks around it.
TRUNC: A number cut to so many decimal places.
UCASE: A text in upper case.
UNBASE64: Bytes from base64 text.
UNHEX: Bytes from hexadecimal digits.
UNIX_DATE: Days since the epoch, of a date or of today.
UNIX_TIMESTAMP: Milliseconds since the epoch, of a timestamp or of now.
UPPER: A text in upper case.
URL_DECODE_PARAM: A URL parameter as it was before it was encoded.
URL_ENCODE_PARAM: A text as a URL parameter.
URL_EXTRACT_FRAGMENT: What stands behind the # of a URL.
URL_EXTRACT_HOST: The host of a URL.
URL_EXTRACT_PARAMETER: A parameter of a URL's query.
URL_EXTRACT_PATH: The path of a URL.
URL_EXTRACT_PORT: The port of a URL, if it has one.
URL_EXTRACT_PROTOCOL: The protocol of a URL.
URL_EXTRACT_QUERY: The query of a URL.
UUID: A random UUID, or the one of sixteen bytes.
WEEKOFYEAR: The ISO week of the year.
XXHASH64: The xxHash64 of a text.
YEAR: The year.
FILTER: The elements or entries for which a lambda gives true.
REDUCE: A state that a lambda has taken from element to element.
TRANSFORM: Each element, or each key and each value, as a lambda makes it.
"""
_TABLE = """
CUBE_EXPLODE: A row for each combination of the elements and NULLs in their places.
EXPLODE: A row for each element of an array.
"""
_AGGREGATE = """
APPROX_COUNT_DISTINCT(T): About how many distinct values there are, in 2 kB (standard error 1.6 %).
APPROX_QUANTILE(N, share[, shares ...]): The value below which about a share of the values lies.
APPROX_TOP_K(T, k): The k most frequent values, as structs of ITEM and (about) COUNT.
ATTR(T): The value, if all of the group are the same, else NULL.
AVG(N): The mean of numbers.
COLLECT_LIST(T): All values, 1000 at most.
COLLECT_SET(T): All distinct values, 1000 at most.
CORRELATION(N, N): Pearson's correlation of two columns.
COUNT(*) or COUNT(T): How many rows there are, or values that are not NULL.
COUNT_DISTINCT(T): How many distinct values there are.
EARLIEST_BY_OFFSET(T[, n][, ignoreNulls]): The first value, or the n first ones, by their arrival.
HISTOGRAM(STRING): How often each value occurs.
LATEST_BY_OFFSET(T[, n][, ignoreNulls]): The last value, or the n last ones, by their arrival.
MAX(T): The greatest value.
MIN(T): The least value.
STDDEV_SAMP(N): The standard deviation of a sample.
STDDEV_SAMPLE(N): The standard deviation of a sample; use STDDEV_SAMP.
SUM(N): The sum of numbers.
SUM_LIST(ARRAY<N>): The sum of the elements of all arrays.
TOPK(T[, columns ...], k): The k greatest values, with columns beside them if asked for.
TOPKDISTINCT(T, k): The k greatest distinct values.
"""


@dataclass(frozen=True)
class Entry:
    """One function of the reference.

    Attributes:
        kind: scalar, table or aggregate.
        signatures: as they may be called.
        sentence: what it does.
    """

    name: str
    kind: str
    signatures: tuple[str, ...]
    sentence: str


def _sentences(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.strip().splitlines())


def reference() -> list[Entry]:
    """All functions, by kind and name: built in, and those that Python files have registered."""
    return [*_scalars(), *_tables(), *_aggregates()]


def _scalars() -> list[Entry]:
    sentences = _sentences(_SCALAR) | {n: f.description for n, f in user_functions().items()}
    names = sorted({*function_names(), *LAMBDA_SIGNATURES})
    return [Entry(n, "scalar", _signatures(n), sentences[n]) for n in names]


def _signatures(name: str) -> tuple[str, ...]:
    overloads = lookup_function(name)
    return LAMBDA_SIGNATURES.get(name) or tuple(o.shown() for o in overloads)


def _tables() -> list[Entry]:
    sentences = _sentences(_TABLE)
    return [
        Entry(n, "table", (f.shown(),), sentences[n]) for n, f in sorted(TABLE_FUNCTIONS.items())
    ]


def _aggregates() -> list[Entry]:
    known = _sentences(_AGGREGATE)
    by_name = {head.partition("(")[0]: head for head in known}
    return [
        Entry(n, "aggregate", (by_name.get(n, n),), known.get(by_name.get(n, n), "User-defined."))
        for n in registry.names()
    ]
