"""httpx for servers on this machine: no certificates are read, which takes long, and no proxy.

It waits longer than its usual 5 s, for the machine may be busy.
"""

from __future__ import annotations

from functools import partial

import httpx

get = partial(httpx.get, verify=False, trust_env=False, timeout=60)
post = partial(httpx.post, verify=False, trust_env=False, timeout=60)
stream = partial(httpx.stream, verify=False, trust_env=False, timeout=60)
