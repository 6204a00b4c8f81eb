"""A labelled set: texts and trees with secrets that must go, and look-alikes that must stay. Every secret is made up.

Secrets are put together from parts, so that no scanner of source code takes this file for a leak.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

ALNUM = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA"
LONG = ALNUM + ALNUM[::-1]
HEX = "0123456789abcdef" * 4
JWT = f"eyJ{'hbGciOiJIUzI1NiJ9'}.eyJ{'zdWIiOiIxMjM0NTY3ODkwIn0'}.{LONG[:43]}"


class Label(NamedTuple):
    """One labelled value: `gone` must not be left anywhere in it, `stay` must."""

    value: object
    gone: tuple[str, ...] = ()
    stay: tuple[str, ...] = ()


def _tokens() -> list[str]:
    return [
        "sk-" + LONG[:48], "sk-proj-" + LONG, "sk-svcacct-" + LONG[:40], "sk-ant-" + "api03-" + LONG,
        "sk-test-" + ALNUM,
        "sk-or-v1-" + HEX, "sk-lf-" + "1234abcd-12ab-34cd-56ef-1234567890ab",
        "AIza" + "SyA1" + ALNUM[:31], "ya29." + LONG[:50], "GOCSPX-" + ALNUM[:28],
        "AKIA" + "IOSFODNN7EXAMPLQ", "ASIA" + "Y34FZKBOKMUTVV7A", "ghp_" + LONG[:36], "gho_" + LONG[:36],
        "ghs_" + LONG[:36], "github_pat_" + LONG, "glpat-" + ALNUM[:20], "xoxb-" + "123456789012-" + ALNUM[:24],
        "xoxp-" + "1234-5678-" + ALNUM, "xapp-1-" + ALNUM, "sk_live_" + ALNUM[:24], "rk_live_" + ALNUM[:24],
        "sk_test_" + ALNUM[:24], "whsec_" + ALNUM, "SK" + HEX[:32], "SG." + ALNUM[:22] + "." + LONG[:43],
        "npm_" + LONG[:36], "pypi-" + "AgEIcHlwaS5vcmc" + LONG, "hf_" + LONG[:34], "dop_v1_" + HEX, "dapi" + HEX[:32],
        "gsk_" + LONG[:52], "xai-" + LONG, "r8_" + LONG[:37], "pplx-" + LONG[:48], "tvly-dev-" + ALNUM,
        "lsv2_pt_" + HEX[:32] + "_" + HEX[:10], "nvapi-" + LONG, "pcsk_" + LONG, "shpat_" + HEX[:32],
        "ntn_" + LONG[:46], "lin_api_" + LONG[:40], "NRAK-" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ1", "glsa_" + LONG[:41],
        "dp.pt." + LONG[:43], "hvs." + LONG, "sb_secret_" + ALNUM, "dckr_pat_" + ALNUM[:27],
        "tok_live_" + "000000000000",
        "key-" + HEX[:32], "ATATT3" + LONG + LONG,
    ]  # fmt: skip


TOKENS = tuple(_tokens())
_BASIC = base64.b64encode(b"user:pa55word").decode()
_PASS = "hunter2-" + "demo"
_WORD = "correct" + "horse99"

POSITIVES: tuple[Label, ...] = (
    *(Label({"messages": [{"content": f"use {t} please"}]}, (t,), ("use ", " please")) for t in TOKENS),
    *(Label({"out": f"KEY={t}\nnext"}, (t,), ("next",)) for t in TOKENS),
    Label({"password": _PASS, "user": "kari"}, (_PASS,), ("kari",)),
    Label({"args": {"dbPassword": _PASS, "page": 3}}, (_PASS,)),
    Label({"env": {"OPENAI_API_KEY": ALNUM, "HOME": "/root"}}, (ALNUM,), ("/root",)),
    Label({"env": {"AWS_SECRET_ACCESS_KEY": LONG[:40]}}, (LONG[:40],)),
    Label(f"AWS_SECRET_ACCESS_KEY={LONG[:40]}", (LONG[:40],)),
    Label(f"export DB_PASSWORD={_WORD}\nexport HOME=/root", (_WORD,), ("export HOME=/root",)),
    Label({"access_token": ALNUM, "token_type": "bearer", "expires_in": 3600}, (ALNUM,), ("token_type",)),
    Label({"client_secret": _WORD, "grant_type": "client_credentials"}, (_WORD,), ("client_credentials",)),
    Label({"pin_code": 1234, "secret": 98765432}, ("98765432",), ("1234",)),
    Label({"headers": {"authorization": "Bearer " + ALNUM}}, (ALNUM,), ("Bearer ",)),
    Label({"headers": [["Authorization", "Basic " + _BASIC], ["accept", "*/*"]]}, (_BASIC,), ("*/*", "Basic ")),
    Label({"headers": [["x-api-key", "k1x"], ["X-Request-Id", "req_1"]]}, ("k1x",), ("req_1",)),
    Label({"headers": [{"name": "Cookie", "value": "sid=Zq1; lang=Zq2"}]}, ("Zq1", "Zq2"), ("sid=", "lang=")),
    Label({"set-cookie": "id=Zq3; Path=/; HttpOnly; SameSite=Lax"}, ("Zq3",), ("; Path=/; HttpOnly; SameSite=Lax",)),
    Label(f"GET / HTTP/1.1\r\nHost: x.test\r\nauthorization: Bearer {ALNUM}\r\nCookie: a=Zq4\r\n\r\n",
          (ALNUM, "Zq4"), ("Host: x.test",)),
    Label(f"curl -H 'Authorization: Bearer {ALNUM}' https://x.test", (ALNUM,), ("https://x.test",)),
    Label(f"curl -H \"x-api-key: {ALNUM}\" https://x.test", (ALNUM,)),
    Label(f"error: 401 for Bearer {ALNUM}", (ALNUM,), ("error: 401",)),
    Label(f"postgres://app:{_WORD}@db.test:5432/app", (_WORD,), ("postgres://app:", "@db.test:5432/app")),
    Label(f"mongodb+srv://app:{_WORD}@c0.test/?retryWrites=true", (_WORD,), ("@c0.test/?retryWrites=true",)),
    Label(f"redis://:{_WORD}@cache.test:6379/0", (_WORD,), ("@cache.test:6379/0",)),
    Label(f"Server=db;Database=a;User Id=app;Password={_WORD};Encrypt=true", (_WORD,), ("Encrypt=true",)),
    Label(f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={LONG}==;EndpointSuffix=core.test",
          (LONG,), ("AccountName=a",)),
    Label(f"https://a.blob.test/c?sv=2024-01-01&se=2026-09-01&sig={ALNUM}%3D",
          (ALNUM,), ("sv=2024-01-01&se=2026-09-01&",)),
    Label(f"https://git.test/x?private=1#access_token={ALNUM}&state=7", (ALNUM,), ("private=1", "&state=7")),
    Label(f"https://{_WORD}x{ALNUM}@git.test/r.git", (ALNUM,), ("@git.test/r.git",)),
    Label(f"grant_type=refresh&client_secret={_WORD}&scope=a", (_WORD,), ("grant_type=refresh&", "&scope=a")),
    Label(f"https://hooks.slack.com/services/T000/B000/{ALNUM}", (ALNUM,), ("https://hooks.slack.com/services/",)),
    Label(f"https://api.telegram.test/bot{'123456789:AA' + LONG[:33]}/send", ("AA" + LONG[:33],), ("/send",)),
    Label({"jwt": JWT}, (LONG[:43],), (JWT.rpartition(".")[0],)),
    Label({"headers": {"Authorization": f"Bearer {JWT}"}}, (LONG[:43],), (JWT.rpartition(".")[0],)),
    Label(f"ValueError: {{'password': '{_PASS}', 'user': 'kari'}}", (_PASS,), ("'user': 'kari'",)),
    Label(f'{{"password": "{_PASS}", "cut off he', (_PASS,), ("cut off he",)),
    Label(f'data: {{"api_key": "{_WORD}"}}\n\ndata: [DONE]\n', (_WORD,), ("data: [DONE]",)),
    Label({"a": "{\"b\": \"{\\\"password\\\": \\\"" + _PASS + "\\\", \\\"n\\\": 1.0}\"}"}, (_PASS,), ("1.0",)),
    Label({"lines": ["-----BEGIN " + "EC PRIVATE KEY-----", LONG, LONG[::-1], "-----END EC PRIVATE KEY-----", "after"]},
          (LONG, LONG[::-1]), ("after",)),
    Label({"http.request.header.x-api-key": "k9k9"}, ("k9k9",)),
    Label({"token": ALNUM, "credential": LONG}, (ALNUM, LONG)),
)  # fmt: skip

NEGATIVES: tuple[object, ...] = (
    {"properties": {"password": {"type": "string", "description": "the user's password"}},
     "required": ["password", "user"]},
    {"password": "This field is required.", "api_key": None, "secret": True},
    {"api_key": "string", "token": "str", "authorization": "Bearer"},
    {"logprobs": {"content": [{"token": " password", "logprob": -0.1}, {"token": "2024", "logprob": 0}]}},
    {"usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}, "max_tokens": 4096, "token_count": 3},
    {"next_page_token": "next123", "page_token": "CAEQAA", "continuation_token": "abc"},
    {"id": "chatcmpl-" + ALNUM, "system_fingerprint": "fp_44709d6fcb", "object": "chat.completion"},
    {"tool_calls": [{"id": "call_" + ALNUM[:24], "type": "function"}], "tool_use_id": "toolu_01" + ALNUM[:22]},
    {"session_id": "sess_" + ALNUM[:20], "trace_id": HEX[:32], "sha": HEX},
    {"traceparent": f"00-{HEX[:32]}-{HEX[:16]}-01", "digest": "sha256:" + HEX},
    {"headers": {"x-request-id": "req_1", "x-ratelimit-remaining-tokens": "99", "www-authenticate": "Bearer"}},
    {"allow_headers": ["authorization", "content-type"], "required": ["api_key", "secret"]},
    "How do I reset my password? The token expired and basic authentication fails.",
    "Set the Authorization header to a bearer token; see the cookie policy.",
    "Set OPENAI_API_KEY=${OPENAI_API_KEY} or password=<your password> in .env",
    'client = OpenAI(api_key=os.environ["OPENAI_API_KEY"]); token = get_token()',
    "api_key=settings.api_key, token=request.headers.get('x'), password=self.password",
    "https://example.test/reset?code=en&page=2&key=name#auth=1",
    "https://user@example.test/path and mail kari@example.test at 10:30",
    "ssh://git@github.test/org/repo.git, git@github.test:org/repo.git",
    "install sk-learn-contrib-package-for-task-scheduling and risk-management-framework-2024",
    "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
    "A key begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.",
    "-----BEGIN CERTIFICATE-----\n" + LONG + "\n-----END CERTIFICATE-----",
    "The bearer of this letter is basic training staff; author, monkey, secretary.",
    {"image": "data:image/png;base64," + LONG * 4, "cookie": "chocolate chip", "auth": "none"},
    {"path": "/etc/ssl/private_key.pem", "private_key": "/etc/ssl/key.pem", "public_key": "ssh-ed25519 AAAA" + ALNUM},
    {"version": "1//0", "mask": "xoxo-love", "css": "sk-fading-circle", "key": "llm.input_messages.0.content"},
    {"uuid": "3f0c7f0e-8f0a-4f3b-9d4e-000000000001", "etag": 'W/"' + HEX[:20] + '"'},
)  # fmt: skip
