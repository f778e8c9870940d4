"""Well-known tokens that are recognised by their form alone, wherever they are printed.

Which prefixes, alphabets and lengths each issuer uses are facts taken from the rules of gitleaks (MIT) and
detect-secrets (Apache-2.0) and the issuers' own pages; the patterns are written for this file. They are stricter than
those for secret files: an output has more text that looks alike. Words such as EXAMPLE mark what is made up.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

from handhold.core.text.secrets import is_plain_value

ENVIRONMENT_RULE = "environment"  # the values of secret variables of our own environment
_MADE_UP = re.compile(r"example|placeholder|dummy|redacted|your[-_]|x{6}|0{10}|1234567890|abcdefgh", re.IGNORECASE)
_LEFT = r"(?<![A-Za-z0-9_])"  # the token does not start within a word
_RIGHT = r"(?![A-Za-z0-9])"
MAX_KEY_CHARS, MAX_KEY_LINES = 20_000, 400  # no token that is recognised is longer
_BEFORE_END = r"(?:[^-]|-(?!----))"  # a character before the next line of dashes
# A line of a key, or most of it: no path, no hash.
_KEY_RUN = r"(?=[a-z0-9+/]{0,31}[A-Z])(?=[A-Za-z+/]{0,31}[0-9])[A-Za-z0-9+/=]{32,}+"


@dataclass(frozen=True)
class TokenRule:
    """`anchors` are texts of which each match has at least one. The group `secret`, if there is one, is replaced."""

    name: str
    anchors: tuple[str, ...]
    pattern: str

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern)


def _token(name: str, anchors: str, body: str) -> TokenRule:
    return TokenRule(name, tuple(anchors.split()), f"{_LEFT}(?:{body}){_RIGHT}")


TOKEN_RULES: tuple[TokenRule, ...] = (
    _token(
        "github-token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{60,255}"
    ),
    _token("gitlab-token", "glpat- gldt- glrt- glptt- glcbt-", r"gl(?:pat|dt|rt|ptt|cbt)-[\w-]{20,64}"),
    _token("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _token("pypi-token", "pypi-AgE", r"pypi-AgE[\w-]{50,300}"),
    _token("aws-access-key", "AKIA ASIA", r"A[KS]IA[A-Z2-7]{16}"),
    _token("google-api-key", "AIza", r"AIza[\w-]{35}"),
    _token("google-oauth-token", "ya29.", r"ya29\.[\w-]{40,300}"),
    _token("openai-key", "T3BlbkFJ", r"sk-[\w-]{10,200}T3BlbkFJ[\w-]{10,200}"),
    _token("anthropic-key", "sk-ant-", r"sk-ant-[a-z]{2,8}\d{2}-[\w-]{60,200}"),
    _token("huggingface-token", "hf_", r"hf_[A-Za-z]{34}"),
    _token(
        "slack-token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xapp-",
        r"xox[abeprs]-(?=[\w-]*\d{6})[\w-]{20,200}|xapp-\d-[\w-]{30,200}",
    ),
    TokenRule(
        "slack-webhook", ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/+]{40,100})"
    ),
    _token("stripe-key", "_live_ _test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{20,120}"),
    _token("sendgrid-key", "SG.", r"SG\.[\w-]{22}\.[\w-]{43}"),
    _token("docker-token", "dckr_", r"dckr_(?:pat|oat)_[\w-]{27,60}"),
    _token("digitalocean-token", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _token("shopify-token", "shp", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _token("linear-key", "lin_api_", r"lin_api_[A-Za-z0-9]{40}"),
    _token("vault-token", "hvs. hvb.", r"hv[sb]\.[\w-]{90,300}"),
    _token("jwt", "eyJ", r"eyJ[\w-]{15,1000}\.eyJ[\w-]{15,4000}\.[\w-]{20,1000}"),
    TokenRule(
        "private-key",
        ("PRIVATE KEY",),
        rf"-----BEGIN [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----(?={_BEFORE_END}{{0,600}}?{_KEY_RUN})"
        # A whole key, with headers, or in a diff that removes it; or as much of it as there is.
        rf"(?P<secret>{_BEFORE_END}{{60,{MAX_KEY_CHARS}}}+(?=-?-----END)"
        rf"|{_BEFORE_END}{{0,600}}?{_KEY_RUN}(?:{_BEFORE_END}{{0,80}}?{_KEY_RUN})*+(?:[\s\\]{{0,4}}[\w+/=]{{1,63}}\Z)?)",
    ),
    TokenRule(
        "url-password", ("://",), r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/@:\"'<>]{0,100}:(?P<secret>[^\s/@\"'<>{}$]{8,200})@"
    ),
    TokenRule(
        "authorization-header",
        ("uthorization", "UTHORIZATION"),
        r"(?i:authorization)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?i:bearer|basic|token)\s{1,3}(?P<secret>[\w.~+/=-]{16,4000})",
    ),
)
RULE_NAMES = (ENVIRONMENT_RULE, *(rule.name for rule in TOKEN_RULES))


def make_token_redactor(unredacted: Collection[str] = ()) -> Callable[[str], str]:
    """A function that replaces tokens in a text by `[redacted: RULE]`, except those of the rules named here.

    The text keeps its line breaks, so that its lines keep their numbers.
    """
    rules = tuple(rule for rule in TOKEN_RULES if rule.name not in unredacted)

    def redact(text: str) -> str:
        for rule in rules:
            if any(anchor in text for anchor in rule.anchors):
                text = rule.regex.sub(lambda found, rule=rule: _replace(rule, found), text)
        return text

    return redact


def _replace(rule: TokenRule, found: re.Match[str]) -> str:
    group = "secret" if "secret" in rule.regex.groupindex else 0
    secret = found[group]
    if _MADE_UP.search(secret) or (group and rule.name == "url-password" and _is_plain_password(secret)):
        return found[0]
    start, end = found.start(group) - found.start(), found.end(group) - found.start()
    line_breaks = "\n" * secret.count("\n")
    return f"{found[0][:start]}[redacted: {rule.name}]{line_breaks}{found[0][end:]}"


def _is_plain_password(value: str) -> bool:
    """Whether it is a word of documentation, such as `password`, or a port and a path."""
    return is_plain_value(value) or value.isalpha() or value.isdigit()
