"""What Barnabas keeps in ZooKeeper.

`paths` builds every path, `nodes` holds one value per znode (pure: encode, decode), `operations` the parts of a multi
and the errors, `session` is the only module that talks to kazoo. Nothing is imported here, so that pure users never
load Twisted or kazoo.
"""
