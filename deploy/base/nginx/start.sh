#!/bin/sh
# Start nginx in the foreground with everything it writes below $RUN_DIR: start.sh <config file>
#
# Here and not in nginx.conf is what differs from machine to machine and not from strategy to
# strategy: where njs is, and who the workers are.
set -eu

config=$1
pid=$RUN_DIR/${config%.conf}.pid
directives="daemon off; pid \"$pid\";"

# A dynamic module is named by its path, and each system has another one.
if grep -q '^ *js_import' "$RUN_DIR/$config"; then
    for folder in /usr/lib/nginx/modules /usr/lib64/nginx/modules /usr/share/nginx/modules \
        /opt/homebrew/lib/nginx/modules /usr/local/lib/nginx/modules; do
        if [ -e "$folder/ngx_http_js_module.so" ]; then
            directives="load_module $folder/ngx_http_js_module.so; $directives"
            break
        fi
    done
fi

# As root nginx would make its workers `nobody`, who may not enter a run directory of root's. On a
# server: files below /run/nginx, `user www-data;`, and a unit file that starts it.
if [ "$(id -u)" = 0 ]; then
    directives="$directives user $(id -un) $(id -gn);"
fi

exec nginx -e stderr -p "$RUN_DIR" -c "$RUN_DIR/$config" -g "$directives"
