"""Clients that hold a file each, which nobody else opens, and their server, without a network.

``terms`` are what they agree on, ``rows`` a client's file and ``units`` its scaling, ``holder`` a
client and ``coordinator`` the server, each with what it keeps on disk; ``members`` says which key
speaks for which client, ``model`` what is kept in the end. ``omkl.federation.flower`` lets them
talk.
"""
