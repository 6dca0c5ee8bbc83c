#!/bin/sh
# Writes the man pages that the program prints, larder.1 and one a command, into a folder.
#
#     tools/manuals.sh PROGRAM FOLDER
set -eu
program=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
table=$(dirname "$0")/../src/cli/commands.def
for command in $(sed -n 's/^LARDER_COMMAND(\([a-z_]*\),.*/\1/p' "$table" | tr _ -); do
    "$program" --man "$command" >"$folder/larder-$command.1"
done
"$program" --man >"$folder/larder.1"
