// Package operator is the API that people and the command line use: levels, holds, breakers, budgets, receipts.
//
// It is reached in two ways only. Over a Unix socket in a folder of mode 0700, where the kernel says which user is at the
// other end; and on the admin port with the operator token of a 0600 file. Without either, the admin port shows levels,
// breakers and problem pages and changes nothing: an agent that knows every port cannot free itself. The listeners that
// serve agents never serve this package.
//
//	GET  /v1/levels                    POST /v1/levels                 raise, lower
//	GET  /v1/breakers                  POST /v1/breakers/{dest}:force
//	GET  /v1/budgets                   GET  /v1/destinations
//	GET  /v1/holds                     POST /v1/holds:release          a selection; dry_run counts only
//	POST /v1/holds/{id}:release        POST /v1/holds/{id}:withdraw
//	GET  /v1/operations                GET  /v1/operations/{id}
//	GET  /v1/receipts                  GET  /v1/receipts/{ref}
//	GET  /v1/config                    POST /v1/config:reload
//	GET  /v1/version                   GET  /problems/{reason}
//
// Every change writes its receipt, with the actor and the reason, before it takes effect. The one exception is a raise: it
// only tightens, so a log that cannot take records does not stop it, and the answer says that it is not recorded.
package operator
