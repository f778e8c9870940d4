"""A server under load: many clients over every tool, killed and replaced, or a server that is killed under them.

Each client is a process with a folder and a session of its own, and shares some files with the others. Before it sends
a call it writes down which; whoever takes the place of one that was killed sends its last call again, with the same id.
So at the end it is known of every change whether it was acknowledged, and the files and the journal must say the same.
"""
