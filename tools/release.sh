#!/usr/bin/env bash
# Makes the release VERSION, such as v0.1.0, of the commit that is checked out, and writes
# it to dist/. It signs and pushes nothing: tools/publish.sh does. The images are for the
# platforms in PLATFORMS, and install.yaml and the chart name them as they will be called
# in the registry KO_DOCKER_REPO. Equal commits, Go commands and base images make equal
# bytes. make release runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC

fail() { echo "make release: $*" >&2; exit 1; }

[[ $VERSION =~ ^v(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z.-]+)?$ ]] || fail "VERSION is ${VERSION:-not set}: set it to one such as v0.1.0"
[ -n "${KO_DOCKER_REPO-}" ] || fail "set KO_DOCKER_REPO to where the images will be, for example registry.example.com/goless"
[ -n "${KO_DEFAULTBASEIMAGE-}" ] || fail "set KO_DEFAULTBASEIMAGE to the base image of the images: the release notes name it, with its digest"
[ -z "$(git status --porcelain)" ] || fail "files are not as in the commit: see git status"
commit=$(git rev-parse HEAD)

# The notes are the section of CHANGELOG.md. A version is made of one commit: once there is
# a hash in the section, of that one.
notes=$(awk -v title="## [${VERSION#v}]" 'index($0, "## ") == 1 {found = index($0, title) == 1} found' CHANGELOG.md)
[ -n "$notes" ] || fail "CHANGELOG.md has no section ## [${VERSION#v}]"
named=$(sed -n 's/^Commit: //p' <<<"$notes")
case $named in
"this one") ;;
"") fail "the section ## [${VERSION#v}] of CHANGELOG.md has no line Commit: this one" ;;
*) fail "CHANGELOG.md has $named as the commit of $VERSION, and this is $commit: choose the next version, or git checkout $named to make that one again" ;;
esac

published=$KO_DOCKER_REPO
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
ldflags="-s -w -X main.version=$VERSION -X main.commit=$commit"
KO_DEFAULTBASEIMAGE=${KO_DEFAULTBASEIMAGE%@*}@$(crane digest "$KO_DEFAULTBASEIMAGE") # a tag may move
export KO_DEFAULTBASEIMAGE SOURCE_DATE_EPOCH GOFLAGS=-buildvcs=false CGO_ENABLED=0

rm -rf dist
mkdir -p dist/images dist/sboms
work=$(mktemp -d)
crane registry serve --address 127.0.0.1:0 --disk "$work" 2>"$work/log" &
registry=$!
trap 'kill $registry; rm -rf "$work"' EXIT
until port=$(sed -n 's/.*serving on port //p' "$work/log") && [ -n "$port" ]; do
  kill -0 $registry || fail "the registry for the images that are made does not start: $(cat "$work/log")"
  sleep 0.1
done
here=127.0.0.1:$port

echo "==> images" >&2
KO_DOCKER_REPO=$here tools/images.sh --sbom-dir=dist/sboms \
  --image-label="org.opencontainers.image.version=$VERSION,org.opencontainers.image.revision=$commit,org.opencontainers.image.licenses=Apache-2.0" >"$work/images"
while IFS== read -r path reference; do
  name=${reference#"$here/"}
  name=${name%@*}
  crane pull --format=oci "$reference" "dist/images/${name%:*}"
  echo "$published/${name%:*}@${reference#*@}" >>dist/images.txt
  replace+=(-e "s|ko://$path\$|$published/${name%:*}@${reference#*@}|")
  images+=(-image "$path=$published/${name%:*}@${reference#*@}")
done <"$work/images"

echo "==> software bills of materials" >&2
go build -o "$work/sbom" ./builder/cmd/sbom
functions=builder/cmd/builder/kodata/plan.json
for bill in dist/sboms/*.spdx.json; do
  carries=()
  [[ ${bill##*/} != builder-* ]] || carries=("$functions")
  "$work/sbom" image "$bill" "${carries[@]}" >"$work/bill"
  cp "$work/bill" "$bill"
done
"$work/sbom" functions "$functions" >dist/sboms/functions.spdx.json

echo "==> install.yaml and chart" >&2
for file in deploy/*.yaml; do
  echo "---"
  sed "${replace[@]}" "$file"
done >dist/install.yaml
! grep -n ko:// dist/install.yaml || fail "install.yaml has images that are not made here"
go run ./operator/cmd/chart -version "${VERSION#v}" "${images[@]}" -o "$work/goless"
helm package "$work/goless" -d dist >&2

echo "==> builder" >&2
for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do
  export GOOS=${platform%/*} GOARCH=${platform#*/}
  program=dist/builder-$GOOS-$GOARCH$(go env GOEXE)
  go build -trimpath -ldflags="$ldflags" -o "$program" ./builder/cmd/builder
  "$work/sbom" program "$program" >"dist/sboms/cli-$GOOS-$GOARCH.spdx.json"
done
unset GOOS GOARCH

{
  sed "s/^Commit: this one\$/Commit: $commit/" <<<"$notes"
  printf '\nMade with %s on the base image %s, for %s.\n' "$(go env GOVERSION)" "$KO_DEFAULTBASEIMAGE" "$PLATFORMS"
} >dist/RELEASE_NOTES.md
cd dist
find . -type f -printf '%P\n' | sort | xargs sha256sum >../checksums.unfinished
mv ../checksums.unfinished checksums.txt
