#!/bin/sh
# Print where nginx' njs module is: each system has another folder. Fails where there is none.
for folder in /usr/lib/nginx/modules /usr/lib64/nginx/modules /usr/share/nginx/modules \
    /opt/homebrew/lib/nginx/modules /usr/local/lib/nginx/modules; do
    module=$folder/ngx_http_js_module.so
    if [ -e "$module" ]; then
        echo "$module"
        exit 0
    fi
done
exit 1
