# At installation: writes `source` to `unit`, with @HURRAYD@, a path, as systemd wants it in a command line.
string(REPLACE "\\" "\\\\" HURRAYD "${HURRAYD}")
string(REPLACE "%" "%%" HURRAYD "${HURRAYD}")
string(REPLACE " " "\\x20" HURRAYD "${HURRAYD}")
message(STATUS "Installing: $ENV{DESTDIR}${unit}")
configure_file("${source}" "$ENV{DESTDIR}${unit}" @ONLY)
list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${unit}")
