"""Reports show no secrets, and keep what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.diagnose.failures.secret_masks import mask_secrets

SECRETS = {
    "token hf_AbCdEfGhIjKlMnOp refused": "hf_AbCdEfGhIjKlMnOp",
    "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCY": "wJalrXUtnFEMIK7MDENGbPxRfiCY",
    "credentials AKIAIOSFODNN7EXAMPLE are not valid": "AKIAIOSFODNN7EXAMPLE",
    "Authorization: Bearer abc.def-ghi_jkl123": "abc.def-ghi_jkl123",
    "https://user:hunter22@example.com/x": "hunter22",
    "clone failed for https://x:ghp_abcdefghijklmnopqrst@github.com/a/b": "ghp_abcdefghijklmnopqrst",
    '{"password": "correct-horse"}': "correct-horse",
    "wandb login --api-key 0123456789abcdef": "0123456789abcdef",
    "-----BEGIN RSA PRIVATE KEY-----MIIEowIBAAKCAQEA": "MIIEowIBAAKCAQEA",
    "https://b.s3.amazonaws.com/k?X-Amz-Signature=0f3ac9d871": "0f3ac9d871",
    "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc": "eyJzdWIiOiIxMjM0In0",
}
PLAIN = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB.",
    "max_tokens=4096 vocab_tokens: 128256",
    "tokens/s 12345, loss: 2.31",
    "KeyError: 'labels'",
    "connect to 10.0.0.3<4321> failed",
)


@pytest.mark.parametrize(("text", "secret"), SECRETS.items(), ids=SECRETS.values())
def test_a_secret_is_masked(text: str, secret: str) -> None:
    masked = mask_secrets(text)
    assert secret not in masked
    assert "***" in masked


@pytest.mark.parametrize("text", PLAIN)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert mask_secrets(text) == text


@given(st.text(max_size=400))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert mask_secrets(mask_secrets(text)) == mask_secrets(text)
