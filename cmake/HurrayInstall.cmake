# The package configuration for find_package(hurray) and pkg-config; each target installs itself in its own folder.
