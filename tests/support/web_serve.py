"""Serves a folder for a test that is a C program: plain, through TLS and as an S3 of the bucket "data"
that anybody may read. Prints "HTTP-PORT HTTPS-PORT S3-PORT CERTIFICATE", ends with its input."""

import ssl
import sys
import tempfile

import web_kit


def main():
    root = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="larder-web-") as home:
        certificate = web_kit.make_certificate(home)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{certificate}.pem", f"{certificate}.key")
        plain, s3 = web_kit.Server(root), web_kit.Server(root, s3=True)
        s3.public = True
        tls = web_kit.Server(root, context=context)
        print(plain.port, tls.port, s3.port, f"{certificate}.pem", flush=True)
        sys.stdin.read()
        for server in (plain, tls, s3):
            server.close()


main()
