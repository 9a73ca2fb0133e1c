"""The version, in a file without imports so that packaging and the command line read it cheaply."""

VERSION = "0.1.0.dev0"
