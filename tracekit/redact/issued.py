"""Tokens that their issuer's prefix gives away: the one table that detectors and placeholders read.

The one idea: a prefix names the issuer and says nothing secret, so it is what a text is searched
for, and what a placeholder keeps.
"""

from __future__ import annotations

from typing import NamedTuple


class Issued(NamedTuple):
    """A kind of token."""

    prefixes: tuple[str, ...]
    """How it begins; of two that begin alike the longer one first."""
    rest: str
    """Pattern of what follows."""
    length: int
    """Usual length of the whole."""


_HEX32 = "[0-9a-f]{32}(?![A-Za-z0-9])"


def _long(least: int) -> str:
    return rf"[\w-]{{{least},}}+"


ISSUED: dict[str, Issued] = {
    "github_token": Issued(
        ("github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        r"(?:(?<=t_)\w{22,}+|(?<!t_)[A-Za-z0-9]{30,}+)",
        40,
    ),
    "gitlab_token": Issued(
        ("glpat-", "gldt-", "glptt-", "glrt-", "glcbt-", "gloas-"), _long(20), 26
    ),
    "slack_token": Issued(
        ("xoxb-", "xoxp-", "xoxa-", "xoxe-", "xoxo-", "xoxr-", "xoxs-", "xapp-"),
        r"[A-Za-z0-9-]{10,}+",
        40,
    ),
    "anthropic_key": Issued(("sk-ant-",), _long(20), 108),
    "openai_key": Issued(
        ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-", "sk-"),
        r"(?=[\w-]{0,160}?(?=[A-Za-z]{0,15}\d)[A-Za-z0-9]{16})[\w-]{20,}+",  # no words with dashes
        51,
    ),
    "stripe_key": Issued(
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), "[A-Za-z0-9]{16,}+", 32
    ),
    "google_key": Issued(("AIza",), r"[\w-]{35}(?![\w-])", 39),
    "google_secret": Issued(("GOCSPX-",), _long(20), 35),
    "huggingface_token": Issued(("hf_", "api_org_"), "[A-Za-z0-9]{30,}+", 37),
    "npm_token": Issued(("npm_",), r"[A-Za-z0-9]{36}(?!\w)", 40),
    "pypi_token": Issued(("pypi-AgEI",), _long(40), 180),
    "mailgun_key": Issued(("key-",), _HEX32, 36),
    "twilio_key": Issued(("SK", "AC"), _HEX32, 34),
    "digitalocean_token": Issued(("dop_v1_", "doo_v1_", "dor_v1_"), "[0-9a-f]{40,}+", 71),
    "shopify_token": Issued(("shpat_", "shpca_", "shppa_", "shpss_"), "[0-9a-fA-F]{32}", 38),
    "databricks_token": Issued(("dapi",), r"[0-9a-f]{32}(?:-\d)?(?!\w)", 36),
    "linear_key": Issued(("lin_api_", "lin_oauth_"), "[A-Za-z0-9]{32,}+", 48),
    "notion_token": Issued(("secret_", "ntn_"), "(?=[A-Za-z0-9]*[0-9])[A-Za-z0-9]{40,}+", 50),
    "grafana_token": Issued(("glsa_", "glc_"), r"\w{32,}+", 46),
    "atlassian_token": Issued(("ATATT3", "ATCTT3", "ATBB"), _long(20) + "(?:=[0-9A-F]{8})?", 192),
    "docker_token": Issued(("dckr_pat_", "dckr_oat_"), _long(20), 36),
    "figma_token": Issued(("figd_", "figo_"), _long(30), 45),
    "age_key": Issued(("AGE-SECRET-KEY-1",), "[A-Z0-9]{40,}+", 74),
    "square_token": Issued(("sq0atp-", "sq0csp-"), _long(20), 29),
    "groq_key": Issued(("gsk_",), "[A-Za-z0-9]{40,}+", 56),
    "xai_key": Issued(("xai-",), "[A-Za-z0-9]{40,}+", 84),
    "perplexity_key": Issued(("pplx-",), "[A-Za-z0-9]{32,}+", 53),
    "replicate_token": Issued(("r8_",), "[A-Za-z0-9]{32,}+", 40),
    "langsmith_key": Issued(("lsv2_pt_", "lsv2_sk_"), r"\w{32,}+", 51),
    "tavily_key": Issued(("tvly-",), _long(24), 36),
    "pinecone_key": Issued(("pcsk_",), r"\w{40,}+", 75),
    "planetscale_token": Issued(("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), _long(32), 54),
    "supabase_key": Issued(("sbp_", "sb_secret_"), r"\w{30,}+", 44),
    "sentry_token": Issued(("sntrys_", "sntryu_"), r"\w{40,}+", 71),
    "newrelic_key": Issued(("NRAK-", "NRJS-"), "[A-Z0-9]{27}(?![A-Z0-9])", 32),
    "postman_key": Issued(("PMAK-",), "[0-9a-f]{24}-[0-9a-f]{34}", 64),
    "rubygems_key": Issued(("rubygems_",), "[0-9a-f]{48}", 57),
    "netlify_token": Issued(("nfp_", "nfc_"), "[A-Za-z0-9]{36,}+", 40),
    "brevo_key": Issued(("xkeysib-", "xsmtpsib-"), "[0-9a-f]{64}-[A-Za-z0-9]{16}", 89),
}
"""By kind; where two kinds begin alike, the more telling one first."""
