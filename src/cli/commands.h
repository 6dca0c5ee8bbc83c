/* One function a command. argv[0] is the command's name; the result is the exit code: 0 well, 1 it
 * failed, 2 wrong usage, 130 interrupted. */
#ifndef LARDER_CLI_COMMANDS_H
#define LARDER_CLI_COMMANDS_H

#define LARDER_COMMAND(name, about) int larder__cmd_##name(int argc, char **argv);
#include "cli/commands.def"
#undef LARDER_COMMAND

#endif
