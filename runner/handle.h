#pragma once

/* Serves one connection: runs one program as the user of this process, passes its streams on, tells how it ended. */
_Noreturn void handle(int connection);
