#!/usr/bin/env bash
# Builds the release VERSION, such as v0.1.0, from the commit that is checked out, and writes
# it to dist/. tools/publish.sh signs and pushes it. The images are for the platforms in
# PLATFORMS. install.yaml and the chart reference them by their future names in the registry
# KO_DOCKER_REPO. The build is reproducible: the same commit, Go command and base image
# result in the same bytes. make release runs this script.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC

fail() { echo "make release: $*" >&2; exit 1; }

[[ $VERSION =~ ^v(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z.-]+)?$ ]] || fail "VERSION is ${VERSION:-not set}: set it to one such as v0.1.0"
[ -n "${KO_DOCKER_REPO-}" ] || fail "KO_DOCKER_REPO is not set: set it to the future repository of the images, such as registry.example.com/goless"
[ -n "${KO_DEFAULTBASEIMAGE-}" ] || fail "KO_DEFAULTBASEIMAGE is not set: set it to the base image of the images, which the release notes list with its digest"
[ -z "$(git status --porcelain)" ] || fail "uncommitted changes: see git status"
commit=$(git rev-parse HEAD)

# The release notes are the section in CHANGELOG.md. If the section contains a commit hash,
# the version can be built only from that commit.
notes=$(awk -v title="## [${VERSION#v}]" 'index($0, "## ") == 1 {found = index($0, title) == 1} found' CHANGELOG.md)
[ -n "$notes" ] || fail "CHANGELOG.md has no section ## [${VERSION#v}]"
named=$(sed -n 's/^Commit: //p' <<<"$notes")
case $named in
"this one") ;;
"") fail "the section ## [${VERSION#v}] of CHANGELOG.md has no line Commit: this one" ;;
*) fail "CHANGELOG.md says that $VERSION was built from commit $named, not from $commit: choose the next version, or run git checkout $named to build that release again" ;;
esac

published=$KO_DOCKER_REPO
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
ldflags="-s -w -X main.version=$VERSION -X main.commit=$commit"
KO_DEFAULTBASEIMAGE=${KO_DEFAULTBASEIMAGE%@*}@$(crane digest "$KO_DEFAULTBASEIMAGE") # a tag can change
export KO_DEFAULTBASEIMAGE SOURCE_DATE_EPOCH GOFLAGS=-buildvcs=false CGO_ENABLED=0

rm -rf dist
mkdir -p dist/images dist/sboms
work=$(mktemp -d)
crane registry serve --address 127.0.0.1:0 --disk "$work" 2>"$work/log" &
registry=$!
trap 'kill $registry; rm -rf "$work"' EXIT
until port=$(sed -n 's/.*serving on port //p' "$work/log") && [ -n "$port" ]; do
  kill -0 $registry || fail "the temporary registry does not start: $(cat "$work/log")"
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
  images+=("$path=$published/${name%:*}@${reference#*@}")
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
! grep -n ko:// dist/install.yaml || fail "install.yaml references images that are not part of the release"
VERSION=${VERSION#v} tools/chart.sh dist "${images[@]}"

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
  printf '\nBuilt with %s on the base image %s, for %s.\n' "$(go env GOVERSION)" "$KO_DEFAULTBASEIMAGE" "$PLATFORMS"
} >dist/RELEASE_NOTES.md
cd dist
find . -type f -printf '%P\n' | sort | xargs sha256sum >../checksums.unfinished
mv ../checksums.unfinished checksums.txt
