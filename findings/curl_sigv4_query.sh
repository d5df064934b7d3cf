#!/usr/bin/env bash
# curl 7.88.1 (Debian 12) signs an S3 query as it stands. AWS Signature Version 4 wants the parameters sorted by name, and a
# name without a value written "name=" ("Create a signed AWS API request", step 1, CanonicalQueryString; test vectors
# get-vanilla-query-order-key-case of the aws-sig-v4-test-suite). So a store answers 403
# SignatureDoesNotMatch to valid requests such as "?uploads" or "?prefix=a&list-type=2", with keys that are right.
#
# Seen with curl 7.88.1-10+deb12u15: sorted queries with values are signed as in the vectors, the two other kinds are not.
# A client of such a libcurl has to sort the query and to append "=" itself.
#
# Asks a server of this machine alone. Exits 0 as seen, 1 if curl has changed, 77 if the package cannot be had.
set -euo pipefail

version=7.88.1-10+deb12u15
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in curl libcurl4; do
  apt-get download -qq "$package=$version" 2>/dev/null || { echo "skipped: no Debian package $package $version here"; exit 77; }
  dpkg-deb -x "$package"_*.deb root
done
library=$(dirname "$(find root -name 'libcurl.so.4' | head -n 1)")
curl() { LD_LIBRARY_PATH="$folder/$library" root/usr/bin/curl "$@"; }
curl --version >version.txt 2>&1 || { echo "skipped: this curl needs libraries that are not here: $(cat version.txt)"; exit 77; }
head -n 1 version.txt

cat >server.py <<'PYTHON'
"""Answers requests; writes the signature of each and the one that the specification gives for its query."""
import hashlib
import hmac
import http.server

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"  # the published example's
DATE = "20150830T123600Z"
SCOPE = "20150830/us-east-1/service/aws4_request"


def expected(query):
    pairs = sorted(part if "=" in part else part + "=" for part in query.split("&") if part)
    request = "\n".join(["GET", "/", "&".join(pairs), "host:example.amazonaws.com", "x-amz-date:" + DATE, "",
                         "host;x-amz-date", hashlib.sha256(b"").hexdigest()])
    text = "\n".join(["AWS4-HMAC-SHA256", DATE, SCOPE, hashlib.sha256(request.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for part in SCOPE.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Store(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        given = self.headers["Authorization"].split("Signature=")[1]
        body = ("right" if given == expected(self.path.partition("?")[2]) else "wrong").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Store)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
mkfifo opened
python3 server.py >opened &
server=$!
trap 'kill $server; rm -rf "$folder"' EXIT
read -r number <opened

changed=0
check() {  # QUERY SEEN
  local answer
  answer=$(curl --silent --aws-sigv4 aws:amz:us-east-1:service --header 'X-Amz-Date: 20150830T123600Z' \
    --user AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY \
    --connect-to "example.amazonaws.com:80:127.0.0.1:$number" "http://example.amazonaws.com/$1")
  printf '%-34s signature %s\n' "/$1" "$answer"
  [ "$answer" = "$2" ] || changed=1
}
check "" right
check "?Param1=value1&Param2=value2" right
check "?list-type=2&prefix=a" right
check "?Param2=value2&Param1=value1" wrong
check "?prefix=a&list-type=2" wrong
check "?uploads" wrong
exit $changed
