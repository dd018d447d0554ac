"""Names of files that usually hold secrets: keys, passwords and tokens of the tools that people use here."""

from __future__ import annotations

from functools import cache

from pathspec import GitIgnoreSpec

_PATTERNS = """
.env
.env.*
!.env.example
!.env.sample
!.env.template
*.env
!example.env
!sample.env
!template.env
.envrc
token
token.txt
*_token
*_token.txt
*-token.txt
password.txt
passwords.txt
api_key.txt
api-key.txt
*_api_key.txt
id_rsa
id_dsa
id_ecdsa
id_ed25519
id_*_sk
*.pem
*.key
*.p12
*.pfx
*.ppk
*.jks
*.keystore
*.kdbx
.ssh/
.gnupg/
.netrc
_netrc
.git-credentials
.pgpass
.my.cnf
.htpasswd
.pypirc
.npmrc
.boto
.s3cfg
.vault-token
.dockercfg
.docker/config.json
.aws/
.azure/
gcloud/
.kube/
kubeconfig
kubeconfig.*
*.kubeconfig
credentials
credentials.json
application_default_credentials.json
client_secret*.json
service-account*.json
service_account*.json
.huggingface/token
huggingface/token
secrets.json
secrets.toml
secrets.y*ml
*.tfstate
*.tfvars
.git/
.hg/
.svn/
"""
"""As in .gitignore, in lower case. Version control data is named for links to it: its URLs may hold passwords."""


def is_secret_name(path: str) -> bool:
    """Whether a file looks like a secret by its path, which has slashes and is relative to the folder."""
    return bool(_spec().match_file(path.lower()))


@cache
def _spec() -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(_PATTERNS.split())
