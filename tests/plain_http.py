"""httpx for servers on this machine: no certificates are read, which takes long, and no proxy."""

from __future__ import annotations

from functools import partial

import httpx

get = partial(httpx.get, verify=False, trust_env=False)
post = partial(httpx.post, verify=False, trust_env=False)
stream = partial(httpx.stream, verify=False, trust_env=False)
