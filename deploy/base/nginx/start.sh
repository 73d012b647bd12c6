#!/bin/sh
# Start nginx in the foreground with everything it writes below $RUN_DIR: start.sh <config file>
#
# Here and not in nginx.conf is what differs from machine to machine and not from strategy to
# strategy: where njs is, and who the workers are.
set -eu

config=$1
pid=$RUN_DIR/${config%.conf}.pid
directives="daemon off; pid \"$pid\";"

# A dynamic module is named by its path; one that was compiled in has none.
if grep -q '^ *js_import' "$RUN_DIR/$config" &&
    module=$(sh "$PROJECT_DIR/deploy/base/nginx/njs.sh"); then
    directives="load_module $module; $directives"
fi

# As root nginx would make its workers `nobody`, who may not enter a run directory of root's. On a
# server: files below /run/nginx, `user www-data;`, and a unit file that starts it.
if [ "$(id -u)" = 0 ]; then
    directives="$directives user $(id -un) $(id -gn);"
fi

exec nginx -e stderr -p "$RUN_DIR" -c "$RUN_DIR/$config" -g "$directives"
