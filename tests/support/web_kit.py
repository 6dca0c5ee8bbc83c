"""Servers for tests, on loopback, stopped by their own process id: nginx, and a small S3 that checks
every signature by its own code and can be told to fail in all the ways that S3 does."""

import hashlib
import hmac
import http.server
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

from ports import free_port

KEY, SECRET, TOKEN = "AKIDLARDERTEST", "a+secret/of=tests", "a-session-token"


def environment(home, **more):
    """This one without anybody's credentials."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    env.update(
        HOME=home,
        LARDER_CACHE_DIR=os.path.join(home, "cache"),
        AWS_EC2_METADATA_DISABLED="true",
        no_proxy="*",
    )
    env.update(more)
    return env


def make_tar(path, rng, n, key="s", size=(1000, 9000)):
    """A shard of n samples and their classes."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for i in range(n):
            for ending, data in (("jpg", rng.randbytes(rng.randint(*size))), ("cls", b"%d" % (i % 5))):
                member = tarfile.TarInfo(f"{key}-{i:05}.{ending}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


# ---- nginx ------------------------------------------------------------------------------------


class Nginx:
    """Serves a folder at http(s)://127.0.0.1:port/, as JSON pages below /json/."""

    def __init__(self, root, certificate=None):
        self.program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
        self.home = tempfile.mkdtemp(prefix="larder-nginx-")
        self.port = free_port()
        tls = ""
        if certificate:
            tls = f"ssl_certificate {certificate}.pem; ssl_certificate_key {certificate}.key;"
        temps = "".join(
            f"{kind}_temp_path {self.home}/{kind}; "
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        with open(f"{self.home}/conf", "w") as conf:
            conf.write(
                f"""daemon off; master_process off; pid {self.home}/pid; error_log {self.home}/log;
events {{ worker_connections 1024; }}
http {{ {temps} keepalive_requests 1000000;
  log_format short '$server_protocol $request $status $http_range';
  access_log {self.home}/access short;
  server {{ listen 127.0.0.1:{self.port} {'ssl http2' if certificate else ''}; {tls}
    root {root}; autoindex on;
    location /json/ {{ alias {root}/; autoindex on; autoindex_format json; }}
  }} }}
"""
            )
        self.errors = open(f"{self.home}/stderr", "w+")
        self.process = subprocess.Popen(
            [self.program, "-c", f"{self.home}/conf", "-p", self.home],
            stdin=subprocess.DEVNULL,
            stderr=self.errors,
        )
        for _ in range(600):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.errors.seek(0)
        says = self.errors.read()
        self.close()
        raise RuntimeError("nginx does not start: " + says)

    def access(self):
        with open(f"{self.home}/access") as f:
            return f.read().splitlines()

    def close(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
        self.process.wait()
        self.errors.close()
        shutil.rmtree(self.home, ignore_errors=True)


def have_nginx():
    return bool(shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin"))


class Between:
    """Passes bytes on to a server, until it forsakes those who are connected: it takes what they say,
    and nothing comes of it."""

    def __init__(self, to):
        self.to, self.pairs, self.forsaken = to, [], set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            pair = (near, far)
            self.pairs.append(pair)
            for a, b in (pair, pair[::-1]):
                threading.Thread(target=self._pass, args=(pair, a, b), daemon=True).start()

    def _pass(self, pair, a, b):
        try:
            while data := a.recv(1 << 16):
                if pair not in self.forsaken:
                    b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def forsake(self):
        self.forsaken.update(self.pairs)

    def close(self):
        for s in (self.listener, *(s for pair in self.pairs for s in pair)):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()


def make_certificate(folder):
    """A certificate for 127.0.0.1 that nobody signed; the path without its ending."""
    path = os.path.join(folder, "certificate")
    subprocess.run(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {path}.key -out {path}.pem".split(),
        check=True,
        capture_output=True,
    )
    return path


# ---- signatures, as the documentation of version 4 describes them -----------------------------


def sign(method, path, query, headers, signed, amz_date, region, secret):
    """Path and query as they came, escaped."""
    pairs = sorted(
        tuple((p.split("=", 1) + [""])[:2]) for p in query.split("&") if p
    )
    canonical = "\n".join(
        [
            method,
            path,
            "&".join(f"{k}={v}" for k, v in pairs),
            "".join(f"{h}:{' '.join(headers[h].split())}\n" for h in signed),
            ";".join(signed),
            headers.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        ]
    )
    scope = f"{amz_date[:8]}/{region}/s3/aws4_request"
    text = "\n".join(
        ["AWS4-HMAC-SHA256", amz_date, scope, hashlib.sha256(canonical.encode()).hexdigest()]
    )
    key = ("AWS4" + secret).encode()
    for step in (amz_date[:8], region, "s3", "aws4_request"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def presign(url, seconds=600, method="GET", key=KEY, secret=SECRET, region="us-east-1"):
    """The URL with a query that lets whoever has it ask once more, by this method alone."""
    host, _, path = url.split("://", 1)[1].partition("/")
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    query = "&".join(
        f"{k}={urllib.parse.quote(v, safe='')}"
        for k, v in (
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", f"{key}/{date[:8]}/{region}/s3/aws4_request"),
            ("X-Amz-Date", date),
            ("X-Amz-Expires", str(seconds)),
            ("X-Amz-SignedHeaders", "host"),
        )
    )
    signature = sign(method, "/" + path, query, {"host": host}, ["host"], date, region, secret)
    return f"{url}?{query}&X-Amz-Signature={signature}"


# ---- a server that fails as told --------------------------------------------------------------


class Faults:
    """What to do with requests whose path matches: a list of (pattern, fault, times)."""

    def __init__(self):
        self.lock = threading.Lock()
        self.rules = []

    def set(self, *rules):
        with self.lock:
            self.rules = [list(r) for r in rules]

    def find(self, path, method):
        with self.lock:
            for rule in self.rules:
                if method == "HEAD" and rule[1] in ("short", "stall", "drip", "close"):
                    continue  # there is no body to cut
                if re.search(rule[0], path) and rule[2] > 0:
                    rule[2] -= 1
                    return rule[1]
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    # -- answers

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(n == "Content-Length" for n, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code, message="", headers=()):
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
        self.answer(status, body.encode(), headers)

    def refuse_by(self, fault):
        """True: the fault was the answer."""
        name, _, value = fault.partition(":")
        if name == "status":
            code = {"503": "SlowDown", "403": "AccessDenied", "500": "InternalError"}.get(value, "X")
            self.refuse(int(value), code)
        elif name == "retry-after":
            self.refuse(503, "SlowDown", headers=[("Retry-After", value)])
        elif name == "expired":
            self.refuse(400, "ExpiredToken", "The provided token has expired.")
        elif name == "skewed":
            self.refuse(403, "RequestTimeTooSkewed", "too large")
        elif name == "loop":
            here = f"http://{self.headers['Host']}{self.path}"
            self.refuse(307, "TemporaryRedirect", headers=[("Location", here)])
        elif name == "away":
            self.refuse(307, "TemporaryRedirect", headers=[("Location", "http://example.org/x")])
        elif name == "region":
            self.refuse(400, "AuthorizationHeaderMalformed", headers=[("x-amz-bucket-region", value)])
        elif name == "hang":
            self.server.stalled.wait(60)
            self.close_connection = True
        elif name == "longline":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * (1 << 20))
            self.close_connection = True
        elif name == "close":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            return False
        return True

    # -- objects

    def find_object(self, key):
        root = os.path.realpath(self.server.root)
        path = os.path.realpath(os.path.join(root, key))
        return path if path.startswith(root + "/") and os.path.isfile(path) else None

    def give_object(self, key, fault):
        path = self.find_object(key)
        if not path:
            return self.refuse(404, "NoSuchKey", "no such key")
        with open(path, "rb") as f:
            whole = f.read()
        etag = f'"{hashlib.md5(whole).hexdigest()}"'
        headers = [("ETag", etag), ("Accept-Ranges", "bytes")]
        status, body = 200, whole
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked and fault != "norange":
            first, last = int(asked[1]), min(int(asked[2]), len(whole) - 1)
            if first >= len(whole):
                return self.refuse(416, "InvalidRange")
            status, body = 206, whole[first : last + 1]
            shift = 1 if fault == "wrongrange" else 0
            total = len(whole) + 1 if fault == "grown" else len(whole)
            headers.append(("Content-Range", f"bytes {first + shift}-{last + shift}/{total}"))
        headers.append(("Content-Length", str(len(body))))
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return None
        if fault == "drip":  # never silent for long, and never done
            for i in range(len(body)):
                self.wfile.write(body[i : i + 1])
                if self.server.stalled.wait(0.1):
                    break
            self.close_connection = True
            return None
        if fault in ("short", "stall"):
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            if fault == "stall":
                self.server.stalled.wait(60)
            self.close_connection = True
            return None
        self.wfile.write(body)
        return None

    def do_GET(self):
        path, _, query = self.path.partition("?")
        with self.server.counting:
            self.server.seen.append(
                (self.command, self.path, {k.lower(): v for k, v in self.headers.items()})
            )
        if self.server.delay:
            time.sleep(self.server.delay)
        fault = self.server.faults.find(self.path, self.command) or ""
        if fault and self.refuse_by(fault):
            return
        if self.server.s3:
            self.serve_s3(path, query, fault)
        else:
            self.serve_plain(path, fault)

    def serve_plain(self, path, fault):
        key = urllib.parse.unquote(path)[1:]
        folder = os.path.join(self.server.root, key)
        if path.endswith("/") and os.path.isdir(folder):
            links = "".join(
                f'<li><a href="{urllib.parse.quote(n)}{"/" if os.path.isdir(os.path.join(folder, n)) else ""}">x</a></li>\n'
                for n in sorted(os.listdir(folder))
            )
            page = f"<html>{links}</html>".encode()
            return self.answer_unsaid(page, fault) or self.answer(200, page)
        if fault.startswith("unsaid"):
            with open(self.find_object(key), "rb") as f:
                self.answer_unsaid(f.read(), fault)
            return None
        return self.give_object(key, fault)

    def answer_unsaid(self, body, fault):
        """Of no length that was said: it ends where the connection does, which may be in the middle."""
        if not fault.startswith("unsaid"):
            return False
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body[: body.rindex(b"\n", 0, len(body) // 2) + 1] if fault == "unsaid:half" else body)
        self.close_connection = True
        return True

    # -- S3

    def presigned_right(self, path, query):
        asked = dict(urllib.parse.parse_qsl(query))
        rest, _, signature = query.partition("&X-Amz-Signature=")
        right = sign(
            self.command, path, rest, {"host": self.headers["Host"]}, ["host"],
            asked["X-Amz-Date"], self.server.region, self.server.secret,
        )  # fmt: skip
        if signature != right:
            self.refuse(403, "SignatureDoesNotMatch", "does not match")
        elif int(asked["X-Amz-Expires"]) < 0:
            self.refuse(403, "AccessDenied", "Request has expired")
            return False
        return signature == right

    def signature_right(self, path, query):
        told = self.headers.get("Authorization")
        server = self.server
        if "X-Amz-Signature=" in query:
            return self.presigned_right(path, query)
        if told and told == f"Bearer {server.bearer}":
            return True
        if not told:
            if server.public:
                return True
            self.refuse(403, "AccessDenied", "Access Denied")
            return False
        m = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
            r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
            told,
        )
        if not m or m[1] != server.key:
            self.refuse(403, "InvalidAccessKeyId", "unknown key")
            return False
        headers = {k.lower(): v for k, v in self.headers.items()}
        signed = m[4].split(";")
        must = {"host", "x-amz-content-sha256", "x-amz-date"} | (
            {"range"} & set(headers)
        )
        if server.token and headers.get("x-amz-security-token") != server.token:
            self.refuse(400, "ExpiredToken", "The provided token has expired.")
            return False
        right = sign(
            self.command, path, query, headers, signed, headers["x-amz-date"], m[3], server.secret
        )
        if m[3] != server.region:
            self.refuse(
                400, "AuthorizationHeaderMalformed", headers=[("x-amz-bucket-region", server.region)]
            )
            return False
        if not must <= set(signed) or m[2] != headers["x-amz-date"][:8] or right != m[5]:
            self.refuse(403, "SignatureDoesNotMatch", "does not match")
            return False
        return True

    def serve_s3(self, path, query, fault):
        if not self.signature_right(path, query):
            return
        host = self.headers["Host"].split(":")[0]
        name = urllib.parse.unquote(path)[1:]
        if host.startswith(self.server.bucket + "."):
            self.server.virtual += 1
            bucket, key = self.server.bucket, name
        else:
            bucket, _, key = name.partition("/")
        if bucket != self.server.bucket:
            return self.refuse(404, "NoSuchBucket", "The specified bucket does not exist")
        if not key:
            return self.give_list(dict(urllib.parse.parse_qsl(query)))
        return self.give_object(key, fault)

    def give_list(self, q):
        keys = []
        for folder, _, names in os.walk(self.server.root):
            for n in names:
                keys.append(os.path.relpath(os.path.join(folder, n), self.server.root))
        keys.sort(key=os.fsencode)
        prefix, delimiter = q.get("prefix", ""), q.get("delimiter", "")
        items = []  # (sort name, key or None)
        for key in keys:
            if not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                common = prefix + rest[: rest.index(delimiter) + 1]
                if not items or items[-1] != (common, None):
                    items.append((common, None))
            else:
                items.append((key, key))
        start = int(q.get("continuation-token", "0"))
        page = items[start : start + self.server.page]
        after = start + self.server.page
        more = after < len(items) or self.server.circle > 0
        if self.server.circle:
            after %= self.server.circle * self.server.page
        url = q.get("encoding-type") == "url"
        quote = (lambda s: urllib.parse.quote_plus(s, safe="/")) if url else escape
        out = ["<?xml version='1.0' encoding='UTF-8'?>"]
        out.append('<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">')
        for name, key in page:
            if key is None:
                out.append(f"<CommonPrefixes><Prefix>{quote(name)}</Prefix></CommonPrefixes>")
                continue
            with open(os.path.join(self.server.root, key), "rb") as f:
                whole = f.read()
            etag = hashlib.md5(whole).hexdigest()
            out.append(
                f"<Contents><Key>{quote(key)}</Key><ETag>&quot;{etag}&quot;</ETag>"
                f"<Size>{len(whole)}</Size></Contents>"
            )
        if url:
            out.append("<EncodingType>url</EncodingType>")
        out.append(f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>")
        if more:
            out.append(f"<NextContinuationToken>{after}</NextContinuationToken>")
        out.append("</ListBucketResult>")
        self.answer(200, "".join(out).encode())


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, root, s3=False, bucket="data", context=None):
        super().__init__(("127.0.0.1", 0), Handler)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.circle = 0  # pages after which a list begins again
        self.bearer = None  # a token that is as good as a signature
        self.root, self.s3, self.bucket = root, s3, bucket
        self.key, self.secret, self.token = KEY, SECRET, ""
        self.region, self.public, self.page = "us-east-1", False, 7
        self.faults, self.delay, self.virtual = Faults(), 0, 0
        self.seen, self.counting = [], threading.Lock()
        self.stalled = threading.Event()
        self.port = self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def handle_error(self, *_):  # clients that go away are what is tested
        pass

    def close(self):
        self.stalled.set()
        self.shutdown()
        self.server_close()
