"""What a secret looks like: token forms of vendors, names of keys and headers, and the one scan that finds any of it.

Rules take exact secrets, never words: a form that only a key has, or a value that stands under an exact name.
Sources of the forms: the vendors' own pages on key formats and the public rule set of gitleaks. Syntax is RE2's.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

import re2


class Token(NamedTuple):
    """A token form: `prefix` as RE2 text, then at least `least` characters of `tail`. `check` sees the whole token."""

    rule: str
    prefix: str
    tail: str
    least: int
    check: Callable[[str], bool] | None = None


class TextRule(NamedTuple):
    """A form in running text. Group 1 is the secret; `check` sees the secret and may refuse it."""

    rule: str
    pattern: str
    check: Callable[[str], bool] | None = None


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Checks ----------------------------------------------------------------------------------------------------

_TYPE_WORDS: Final = _words(
    "string str number integer int float boolean bool null none nil true false object array required optional "
    "undefined unset empty missing invalid bearer basic yes no on off redacted hidden masked secret password passwd "
    "token n/a tbd filtered removed enabled disabled scrubbed"
)


def is_template(text: str) -> bool:
    """True for what stands for a secret without being one: `${X}`, `{x}`, `<x>`, `***`, `%s`, a placeholder of ours."""
    return text[0] in "${<%[" or text.startswith(("...", "os.environ", "process.env")) or not text.strip("*xX.•_-")


def is_value(text: str) -> bool:
    """True where the text under an exact name can be a secret: one word that is no type name and no stand-in."""
    text = text.strip()
    return bool(text) and text.lower() not in _TYPE_WORDS and not is_template(text)


def is_word(text: str) -> bool:
    """True for a value without white space; prose such as "This field is required." is none."""
    return is_value(text) and not any(char.isspace() for char in text)


def looks_random(text: str) -> bool:
    """True for eight characters or more without white space that mix letters and digits, and is no path or address."""
    return (
        len(text) >= 8
        and is_word(text)
        and any(char.isdigit() for char in text)
        and any(char.isalpha() for char in text)
        and text[0] not in "/.~@"
        and "://" not in text
        and "(" not in text
    )


def looks_long(text: str) -> bool:
    """True for sixteen characters or more that look random."""
    return len(text) >= 16 and looks_random(text)


def _sk_key(text: str) -> bool:
    digits = sum(char.isdigit() for char in text)
    mixed = any(char.isupper() for char in text) and any(char.islower() for char in text[3:])
    return digits >= 4 or (digits >= 1 and mixed) or (len(text) >= 35 and mixed)


def _has_digit(text: str) -> bool:
    return any(char.isdigit() for char in text)


def _basic(text: str) -> bool:
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return False
    return ":" in plain and plain.isprintable()


# Tokens ----------------------------------------------------------------------------------------------------

_WORD: Final = "[A-Za-z0-9]"
_DASH: Final = "[A-Za-z0-9_-]"
_HEX: Final = "[a-f0-9]"

TOKENS: Final = (
    Token("anthropic-key", "sk-ant-", _DASH, 12),
    Token("openai-key", "sk-(?:proj|svcacct|admin|None)-", _DASH, 16, _has_digit),
    Token("secret-key", "sk-", _DASH, 16, _sk_key),
    Token("google-api-key", "AIza", _DASH, 30),
    Token("google-oauth-token", r"ya29\.", _DASH, 20),
    Token("google-client-secret", "GOCSPX-", _DASH, 20),
    Token("google-refresh-token", "1//0", _DASH, 30),
    Token("aws-access-key", "(?:AKIA|ASIA|ABIA|ACCA)", "[A-Z0-9]", 16),
    Token("github-token", "gh[pousr]_", _WORD, 30),
    Token("github-token", "github_pat_", "[A-Za-z0-9_]", 22),
    Token("gitlab-token", "gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt)-", _DASH, 16),
    Token("slack-token", r"(?:xoxe\.)?xox[abeoprs]-", "[A-Za-z0-9-]", 10, _has_digit),
    Token("slack-token", r"xapp-\d-", "[A-Za-z0-9-]", 20),
    Token("stripe-key", "(?:sk|rk)_(?:live|test)_", _WORD, 10),
    Token("webhook-secret", "whsec_", "[A-Za-z0-9+/=]", 20),
    Token("live-token", "(?:tok|token|key|secret|api|pk_sec)_(?:live|test|prod)_", _WORD, 10, _has_digit),
    Token("twilio-key", "SK", _HEX, 32),
    Token("sendgrid-key", r"SG\.", r"[A-Za-z0-9_.-]", 32),
    Token("mailgun-key", "key-", _HEX, 32),
    Token("npm-token", "npm_", _WORD, 30),
    Token("pypi-token", "pypi-", _DASH, 32, _has_digit),
    Token("huggingface-token", "(?:hf_|api_org_)", _WORD, 30),
    Token("digitalocean-token", "do[oprt]_v1_", _HEX, 40),
    Token("databricks-token", "dapi", "[a-f0-9-]", 32),
    Token("groq-key", "gsk_", _WORD, 20),
    Token("xai-key", "xai-", _WORD, 20, _has_digit),
    Token("replicate-token", "r8_", _WORD, 30),
    Token("perplexity-key", "pplx-", _WORD, 20, _has_digit),
    Token("fireworks-key", "fw_", _WORD, 20, _has_digit),
    Token("tavily-key", "tvly-", _DASH, 16, _has_digit),
    Token("langsmith-key", "lsv2_(?:pt|sk)_", "[a-f0-9_]", 32),
    Token("logfire-token", r"pylf_v\d_[a-z]{2}_", _WORD, 30),
    Token("nvidia-key", "nvapi-", _DASH, 40),
    Token("pinecone-key", "pcsk_", "[A-Za-z0-9_]", 30),
    Token("shopify-token", "shp(?:at|ca|pa|ss)_", "[a-fA-F0-9]", 32),
    Token("square-token", "sq0(?:atp|csp|idp)-", _DASH, 22),
    Token("notion-token", "(?:ntn_|secret_)", _WORD, 40),
    Token("linear-key", "lin_(?:api|oauth)_", _WORD, 32),
    Token("atlassian-token", "ATATT3", "[A-Za-z0-9_=-]", 50),
    Token("newrelic-key", "NRAK-", "[A-Z0-9]", 27),
    Token("grafana-token", "gl(?:sa|c)_", "[A-Za-z0-9_=+/]", 30),
    Token("doppler-token", r"dp\.(?:pt|st|sa|ct|scim|audit)\.", _WORD, 40),
    Token("vault-token", r"hv[sbr]\.", _DASH, 24),
    Token("supabase-key", "(?:sb_secret_|sbp_)", _DASH, 20),
    Token("age-key", "AGE-SECRET-KEY-1", "[0-9A-Z]", 50),
    Token("sentry-token", "sntry[su]_", "[A-Za-z0-9_=+/-]", 40),
    Token("docker-token", "dckr_pat_", _DASH, 20),
    Token("postman-key", "PMAK-", "[a-f0-9-]", 50),
    Token("figma-token", "fig[du]_", _DASH, 30),
    Token("rubygems-key", "rubygems_", _HEX, 40),
    Token("heroku-key", "HRKU-", _DASH, 30),
)

LEFT: Final = r"(?:^|[^A-Za-z0-9_-]|\\[nrt])"
"""What may stand before a token. A backslash and its letter: in JSON text that does not parse, `\\n` ends a word."""

# Names -----------------------------------------------------------------------------------------------------


def plain_name(name: str) -> str:
    """Return a name in lower case without its separators: `Api-Key`, `api_key` and `apiKey` are one name."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "").replace(".", "")


SECRET_NAMES: Final = _words(
    "password passwd passphrase userpassword dbpassword newpassword oldpassword currentpassword passwordconfirmation "
    "secret clientsecret appsecret apisecret sharedsecret signingsecret webhooksecret consumersecret "
    "apikey xapikey apikeys apitoken accesstoken refreshtoken idtoken authtoken bearertoken sessiontoken "
    "oauthtoken accesstokensecret oauthtokensecret xauthtoken xaccesstoken csrftoken xsrftoken "
    "privatekey secretkey secretaccesskey awssecretaccesskey awssessiontoken accountkey sharedaccesskey "
    "encryptionkey signingkey masterkey servicerolekey privatekeypem authorization proxyauthorization"
)
"""Exact names (see `plain_name`) whose value is a secret whatever it looks like."""
MAYBE_NAMES: Final = _words("token auth pwd pass credential credentials otp jwt sas")
"""Names that are also words of daily life: their value must look random as well."""
SECRET_ENDINGS: Final = tuple(
    sorted(
        _words(
            "_password _passwd _passphrase _secret _api_key _apikey _secret_key _access_key _secret_access_key "
            "_access_token _auth_token _refresh_token _session_token _api_token _client_secret _private_key"
        )
    )
)
"""Endings of names such as DB_PASSWORD; the value must be one word."""

HEADER_NAMES: Final = _words(
    "authorization proxy-authorization cookie set-cookie x-api-key api-key apikey x-goog-api-key x-auth-token "
    "x-access-token x-amz-security-token x-csrf-token x-xsrf-token x-session-token x-goog-iam-authorization-token "
    "x-vault-token x-gitlab-token private-token x-shopify-access-token x-functions-key ocp-apim-subscription-key "
    "x-rapidapi-key x-figma-token x-hub-signature x-hub-signature-256 x-secret-key x-client-secret x-amz-signature "
    "anthropic-api-key openai-api-key azure-api-key helicone-auth cf-access-client-secret cf-access-jwt-assertion "
    "x-forwarded-access-token x-ms-token-aad-access-token authentication-info sec-websocket-protocol-token"
)
COOKIE_HEADERS: Final = frozenset(("cookie", "set-cookie"))
COOKIE_ATTRIBUTES: Final = _words(
    "expires max-age domain path secure httponly samesite partitioned priority version comment"
)

# Running text ----------------------------------------------------------------------------------------------

_NAMES: Final = (
    r"(?:pass(?:word|wd|phrase)|secret|api[_-]?key|(?:access|refresh|auth|session|api|id)[_-]?token"
    r"|(?:private|secret|access|account|shared[_-]?access)[_-]?key)"
)
_PARAMETERS: Final = (
    r"sig|signature|x-(?:amz|goog)-signature|x-amz-security-token|client_secret|access_token|refresh_token|id_token"
    r"|api_?key|api-key|password|passwd|secret|subscription-key"
)
_QUOTE: Final = r"[\"'\\]*"
_BARE: Final = r"[^\s\"'\\&;,<>(){}\[\]|]"

TEXT_RULES: Final = (
    TextRule("url-password", r"(?i)[a-z][a-z0-9+.-]*://[^\s/?#@:\"'<>\\]*:([^\s/?#\"'<>\\]+)@", is_value),
    TextRule("url-user-token", r"(?i)[a-z][a-z0-9+.-]*://([^\s/?#@:\"'<>\\]{20,})@", looks_long),
    TextRule("url-signature", rf"(?i)(?:[?&;#]|u0026)(?:{_PARAMETERS})=([^\s&;#\"'<>\\]+)", is_word),
    TextRule("form-secret", rf"(?i)^(?:{_PARAMETERS})=([^\s&;#\"'<>\\]+)&", is_word),
    TextRule("url-code", r"(?i)(?:[?&;#]|u0026)(?:code|token|auth|jwt|sas|key)=([^\s&;#\"'<>\\]+)", looks_random),
    TextRule("bearer", r"(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{8,})", _has_digit),
    TextRule("basic", r"(?i)\bbasic\s+([A-Za-z0-9+/]{8,}={0,2})", _basic),
    TextRule("jwt-signature", r"\beyJ[A-Za-z0-9_-]{6,}\.eyJ[A-Za-z0-9_-]{6,}\.([A-Za-z0-9_-]{16,})"),
    TextRule(
        "connection-secret",
        r"(?i)(?:^|[;\"'])\s*(?:password|pwd|accountkey|sharedaccesskey)\s*=\s*([^;\"'\s]+)",
        is_value,
    ),
    TextRule("slack-webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,})"),
    TextRule("discord-webhook", r"discord(?:app)?\.com/api/webhooks/\d+/([A-Za-z0-9_-]{30,})"),
    TextRule("telegram-token", r"\b(?:bot)?(\d{8,10}:AA[A-Za-z0-9_-]{30,})"),
    TextRule("azure-key", r"\b([A-Za-z0-9]{44,60}JQQJ9[A-Za-z0-9]{20,40})\b"),
    TextRule("azure-client-secret", r"(?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})"),
    TextRule("aws-secret-key", r"(?i)secret_?access_?key[\"'\\]*\s*[:=]\s*[\"'\\]*([A-Za-z0-9/+=]{30,})"),
    TextRule("quoted-field", rf"(?i)[\"'][a-z0-9_.-]*{_NAMES}\\*[\"']\s*[:=]\s*[bu]?\\*[\"']([^\"'\\\s]+)", is_word),
    TextRule("assignment", rf"(?i)\b[a-z0-9_.-]*(?:{_NAMES}|token)\s*[=:]\s*{_QUOTE}({_BARE}{{8,}})", looks_random),
)
_HEADER_UNION: Final = "|".join(sorted(HEADER_NAMES, key=len, reverse=True))
HEADER_TEXT: Final = rf"(?im)(?:^|[\"']|\\[nr])({_HEADER_UNION})\\*[\"']?\s*:[ \t]*\\*[\"']?([^\r\n\"'\\]+)"
PRIVATE_KEY_BEGIN: Final = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

KEY_IN_PIECES: Final = r'-----BEGIN [A-Z]|-----\\*"|-BE?G?I?N?\\*"|"-*BEG|KEY-----|' + "[^A-Za-z]*".join("PRIVATE")
"""The marks of a private key however it is cut: parts of its first line, or its letters in small pieces."""
EVENTS: Final = r'data: ?\{|\}(?:\r?\n|\\r|\\n|\\*",\\*")+\{'
"""The texts of a stream, in which anything may be cut by what is around it in each event."""

# The one scan ----------------------------------------------------------------------------------------------

_KEY_SCAN: Final = (
    r"(?i:password|passwd|passphrase|secret|token|api[_-]?key|api[_-]?keys|access[_-]?key|private[_-]?key|secret[_-]?key"
    r"|account[_-]?key|master[_-]?key|signing[_-]?key|encryption[_-]?key|role[_-]?key|private[_-]?key[_-]?pem|cookie"
    r"|confirmation|authorization|credentials?|auth|pwd|pass|otp|jwt|sas)"
    r"[\"'\\]*\s*[:=]\s*[\"'\\\[]*[^\s\"'\\\[\]{},:=]"
)
_HEADER_SCAN: Final = rf"(?i:{_HEADER_UNION})[\"'\\]*\s*[:,]"
_TEXT_SCANS: Final = (
    r"://[^\s/?#\"'<>\\]*@",
    r"(?i:^|[?&;#]|u0026|\")(?i:sig|signature|x-(?:amz|goog)-signature|code|sas|key|subscription-key)=",
    r"(?i:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8}",
    r"eyJ[A-Za-z0-9_-]{6,}\.eyJ",
    r"(?:hooks\.slack\.com|/api/webhooks)/",
    r"\d{8}:AA[A-Za-z0-9_-]{8}",
    r"JQQJ9",
    r"\dQ~",
    KEY_IN_PIECES,
    EVENTS,
)


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    return options


def token_scans() -> list[str]:
    """Return the scan alternatives of the vendor tokens: the prefix and eight characters, without a left border."""
    return [f"{token.prefix}{token.tail}{{8}}" for token in TOKENS]


def detector(more: tuple[str, ...] = (), *, defaults: bool = True) -> re2._Regexp:
    """Return the one scan over encoded bytes: it hits whenever any rule could. `more` are the patterns of own rules."""
    parts = [f"(?:{pattern})" for pattern in more]
    if defaults:
        parts += [*token_scans(), *_TEXT_SCANS, _KEY_SCAN, _HEADER_SCAN]
    return scan("|".join(parts or ["[^\\x00-\\x{10FFFF}]"]))


@lru_cache(maxsize=64)
def scan(pattern: str) -> re2._Regexp:
    """Return `pattern` as a scan over bytes that only tells whether there is a hit."""
    return re2.compile(pattern.encode(), _options())


def compiled(pattern: str) -> re2._Regexp:
    """Return `pattern` for use on UTF-8 bytes. Raises re2.error for a bad one."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern.encode(), options)


def rule_name(name: str) -> str:
    """Return a key or header name as the name of a rule: `X-Api-Key` and `x_api_key` give `x-api-key`."""
    spaced = re2.sub(r"([a-z0-9])([A-Z])", r"\1-\2", name).lower()
    return re2.sub(r"[^a-z0-9]+", "-", spaced).strip("-") or "secret"


_PROSE: Final = _words("the is are was must your this of a an be not required for to should has have and or with")


def is_prose(text: str) -> bool:
    """True for a sentence, such as a description or an error: several words, many of them or one that binds others."""
    words = text.split()
    return len(words) > 1 and (len(words) > 12 or bool(_PROSE.intersection(word.lower().strip(".,") for word in words)))


_PATH_LIKE: Final = re2.compile(r"(?:~|\.{0,2}|[A-Za-z]:)[/\\][\w./\\ -]*|[a-z]+://[^@]*")
_HEADER_PREFIXES: Final = ("http.request.header.", "http.response.header.", "rpc.request.metadata.")


def header_name(name: str) -> str:
    """Return the header in lower case that `name` means, if its value is secret; else ""."""
    lower = name.lower()
    for prefix in _HEADER_PREFIXES:
        if lower.startswith(prefix):
            lower = lower[len(prefix) :].replace("_", "-")
    lower = lower if lower in HEADER_NAMES else lower.replace("_", "-")
    return lower if lower in HEADER_NAMES else ""


def is_secret_name(name: str) -> bool:
    """True for an exact name (or the ending of one) under which only secrets stand."""
    return plain_name(name) in SECRET_NAMES or name.lower().replace("-", "_").endswith(SECRET_ENDINGS)


def is_secret_field(name: str, text: str) -> bool:
    """True where `text` under the key `name` is a secret: not a type name, a path, a template or a sentence."""
    plain = plain_name(name)
    exact = plain in SECRET_NAMES
    if not exact and not name.lower().replace("-", "_").endswith(SECRET_ENDINGS):
        return plain in MAYBE_NAMES and (looks_random(text) or (plain == "otp" and text.isdigit() and len(text) >= 4))
    if not is_value(text) or ("pass" not in plain and _PATH_LIKE.fullmatch(text)):
        return False
    words = text.split()
    if len(words) == 1:
        return True
    return exact and not is_prose(text)
