/* The bill of materials: what this program is made of, for `larder --version --json`. */
#ifndef LARDER_CLI_BILL_H
#define LARDER_CLI_BILL_H

int larder__print_bill(void);

#endif
