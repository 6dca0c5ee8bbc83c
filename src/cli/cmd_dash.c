/* larder dash: the running jobs as a page in the browser, and as metrics. */
#include "base/err.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/stop.h"
#include "see/http_server.h"

#include <stdio.h>
#include <stdlib.h>

static void stop_serving(void *http) { larder__http_stop(http); }

int larder__cmd_dash(int argc, char **argv) {
    const char *address = "127.0.0.1:7433", *token = getenv("LARDER_TOKEN");
    const larder__option table[] = {
        {"http", LARDER__TEXT, &address, "HOST:PORT",
         "where to serve; port 0 is any that is free (127.0.0.1:7433)"},
        {"token", LARDER__TEXT, &token, "TEXT",
         "what visitors have to show ($LARDER_TOKEN; made up unless on this machine)"},
        {0}};
    const larder__command command = {
        "dash", "larder dash [--http HOST:PORT] [--token TEXT]",
        "Serves one page that shows the running jobs of this user live: throughput, where samples\n"
        "come from, what the cache saves, where the time goes, loss and accuracy, scores, the\n"
        "ledger and bad samples. /metrics has the same for Prometheus, /state.json for programs.\n"
        "Nothing can be changed through it. Served to other machines, it asks for the token that\n"
        "is printed with the address. Ctrl-C ends it.",
        "  larder dash\n"
        "  larder dash --http 0.0.0.0:7433          (prints an address with a token)\n"
        "  curl -s http://127.0.0.1:7433/metrics",
        table};
    larder__http *http = NULL;
    larder__stop stop;
    size_t words;
    int parsed = larder__options_parse(&command, argc, argv, NULL, 0, &words), code = 0;
    if (parsed != 0)
        return parsed < 0 ? 2 : 0;
    int rc =
        larder__http_open(&http, &(larder__http_server_conf){.address = address, .token = token});
    if (rc == 0 && (rc = larder__stop_open(&stop)) == 0) {
        printf("larder dash: %s\n", larder__http_url(http));
        fflush(stdout);
        larder__stop_tell(&stop, stop_serving, http);
        rc = larder__http_run(http);
        larder__stop_tell(&stop, NULL, NULL);
        code = larder__stop_code(&stop);
        larder__stop_close(&stop);
    }
    rc = larder__exit_code("dash", rc);
    larder__http_close(&http);
    return code ? code : rc;
}
