"""Reports show no secrets, and keep what is none."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.jobs.secret_masks import mask_secrets

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
    "WANDB_API_KEY is 0123456789abcdef0123456789abcdef01234567": "0123456789abcdef",
    "login failed: password hunter2secret": "hunter2secret",
    "machine a.example login bob password s3cr3tvalue": "s3cr3tvalue",
    "wandb: key 89abcdef0123456789abcdef0123456789abcdef": "89abcdef",
    "https://acc.blob.core.windows.net/c?sv=2022&sig=aB3dE5%2Fg7": "aB3dE5",
    "DefaultEndpointsProtocol=https;AccountKey=Zm9vYmFyYmF6Zm9vYmFyYmF6==": "Zm9vYmFy",
    "MYSQL_PWD=pa55": "pa55",
    "PGPASS=pa55word": "pa55word",
    "pw: tr0ub4dor": "tr0ub4dor",
    "sshpass -p xyzzy ssh n1": "xyzzy",
    "curl -s -u bob:xyzzy https://a.example": "xyzzy",
    "stripe sk_live_51H8abcdefgh": "sk_live_51H8abcdefgh",
    "upload with pypi-AgEIcHlwaS5vcmcCJDUw": "AgEIcHlwaS5vcmcCJDUw",
    "docker login dckr_pat_a1b2c3d4e5f6": "a1b2c3d4e5f6",
    "mail SG.abcdefghijkl.mnopqrstuv": "mnopqrstuv",
    "vault hvs.CAESIJabcdefgh": "CAESIJabcdefgh",
    '{"password": "correct horse battery"}': "battery",
    "token='s3cr3t,with,comma rest'": "comma",
    "postgres://user:p@ss/w0rd@db.example/x": "w0rd",
}
PLAIN = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB.",
    "max_tokens=4096 vocab_tokens: 128256",
    "tokens/s 12345, loss: 2.31",
    "KeyError: 'labels'",
    "connect to 10.0.0.3<4321> failed",
    "KeyError: key layer.0.weight is not in the state dict",
    "missing key model.layers.12.mlp.up_proj.weight",
    "got token 128001 at position 7",
    "store->get('0') got error: Socket Timeout by key '0'",
    "https://a.example:443/path and admin@a.example",
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


@pytest.mark.parametrize(
    "text", ["key " * 4_000, "token=" * 4_000, "https://a:" * 3_000, 'password="' * 3_000, "a" * 40_000]
)
def test_no_text_makes_the_masking_slow(text: str) -> None:
    start = time.thread_time()
    mask_secrets(text)
    assert time.thread_time() - start < 2
