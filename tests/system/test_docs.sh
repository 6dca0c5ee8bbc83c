#!/usr/bin/env bash
# release build only
# The table of plug-ins in docs is the one the program prints.
set -eu
tools/gen-docs.sh --check
