"""Puts a folder into a bucket of a moto_server (PyPI's moto, which simulates AWS), creates a user with read access and a user
without any, and makes the server require signatures from then on. Prints each user's access key and secret key.

    python moto_bucket.py ENDPOINT BUCKET PREFIX FOLDER
"""
import json
import os
import sys
import urllib.request

import boto3

endpoint, bucket, prefix, folder = sys.argv[1:]
session = boto3.Session(aws_access_key_id="anybody", aws_secret_access_key="any", region_name="us-east-1")
s3, iam = (session.client(service, endpoint_url=endpoint) for service in ("s3", "iam"))
s3.create_bucket(Bucket=bucket)
for here, _, names in os.walk(folder):
    for name in names:
        path = os.path.join(here, name)
        s3.upload_file(path, bucket, f"{prefix}/{os.path.relpath(path, folder)}")
for user in ("reader", "nobody"):
    iam.create_user(UserName=user)
    key = iam.create_access_key(UserName=user)["AccessKey"]
    print(key["AccessKeyId"], key["SecretAccessKey"])
may_read = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
iam.put_user_policy(UserName="reader", PolicyName="read",
                    PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [may_read]}))
# Like INITIAL_NO_AUTH_ACTION_COUNT=0 at a server's start: from here on a user must sign every request.
urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset-auth", data=b"0",
                                              headers={"Content-Type": "text/plain"})).close()
