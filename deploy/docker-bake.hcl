# The operator's image for both architectures, from a base that its digest names. From the root of the repository:
#   BASE=python:3.13-slim@sha256:... IMAGE=registry.example/windlass docker buildx bake -f deploy/docker-bake.hcl --push
# `docker buildx imagetools inspect python:3.13-slim` prints the digest of the index of all architectures.
variable "BASE" {
  default = ""
  validation {
    condition     = length(regexall("@sha256:[0-9a-f]{64}$", BASE)) > 0
    error_message = "BASE has no digest: set BASE=python:3.13-slim@sha256:..., as printed by docker buildx imagetools inspect python:3.13-slim"
  }
}

variable "IMAGE" {
  default = "windlass"
}

variable "VERSION" {
  default = "0.1.0"
}

# Seconds since the epoch, as of the commit: the times of all files in the image.
variable "SOURCE_DATE_EPOCH" {
  default = "0"
}

target "default" {
  context    = "."
  dockerfile = "deploy/Dockerfile"
  platforms  = ["linux/amd64", "linux/arm64"]
  tags       = ["${IMAGE}:${VERSION}"]
  args = {
    BASE              = BASE
    SOURCE_DATE_EPOCH = SOURCE_DATE_EPOCH
  }
  attest = ["type=provenance,mode=max", "type=sbom"]
}
