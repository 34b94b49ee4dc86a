#!/usr/bin/env bash
# Publishes the release that make release has written to dist/: signs the checksums of all
# files, and pushes the images and the chart to the registry that install.yaml references.
#
#   tools/publish.sh KEY
#
# KEY is a private key of OpenSSH, or a public key whose private key is in an agent. crane
# and helm must be logged in to the registry. For a registry without TLS, set
# HELM_FLAGS=--plain-http. Images that are already pushed are not changed, so the script can
# be run again after an interruption.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.cache/bin:$PATH

fail() { echo "tools/publish.sh: $*" >&2; exit 1; }

[ $# -eq 1 ] || { echo "usage: tools/publish.sh KEY" >&2; exit 2; }
key=$(realpath "$1")
[ -f dist/checksums.txt ] || fail "no release in dist/: run make release"
cd dist
sha256sum --check --quiet checksums.txt
chart=$(echo goless-*.tgz)
version=v${chart#goless-}
version=${version%.tgz}

# The images of a published version must never change.
while IFS=@ read -r name digest; do
  published=$(crane digest "$name:$version" 2>/dev/null) || continue
  [ "$published" = "$digest" ] || fail "$name:$version is already published with digest $published: choose the next version"
done <images.txt

rm -f checksums.txt.sig
ssh-keygen -Y sign -f "$key" -n goless-release checksums.txt
while IFS=@ read -r name digest; do
  pushed=$(crane push "images/${name##*/}" "$name:$version")
  [ "${pushed#*@}" = "$digest" ] || fail "pushed image is $pushed, but install.yaml references $name@$digest"
done <images.txt
# shellcheck disable=SC2086 # there may be several flags
helm push "$chart" "oci://$(sed -n '1s|/[^/]*@.*||p' images.txt)/charts" ${HELM_FLAGS-}
