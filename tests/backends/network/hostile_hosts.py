"""Names that imitate `files.example.org` or lead to this machine. None of them may be reached."""

LONG = "a" * 64

HOSTILE: tuple[str, ...] = (
    # names around it
    *("evil-files.example.org", "files.example.org.evil.test", "files.example.orgevil.test", "xfiles.example.org"),
    *("files.example.com", "files.example.organic", "example.org", "org", "files-example.org", "filesxexample.org"),
    *("evil.test/files.example.org", "evil.test#files.example.org", "evil.test?files.example.org"),
    *("evil.test\\files.example.org", "evil.test;files.example.org", "evil.test,files.example.org"),
    *("sub.files.example.org", "www.files.example.org", "files.example.org..", "files..example.org"),
    # with a user name and password
    *("files.example.org@evil.test", "files.example.org:443@evil.test", "evil.test@files.example.org", "@evil.test"),
    *("files.example.org%40evil.test", "user:pass@files.example.org"),
    # with the end of a C string or of a line
    *("files.example.org\0.evil.test", "files.example.org%00.evil.test", "evil.test\0files.example.org", "\0"),
    *("files.example.org\r\nHost: evil.test", "files.example.org\nevil.test", "files.example.org\revil.test"),
    *("files.example.org\t.evil.test", "files.example.org evil.test", " files.example.org", "files.example.org "),
    *("files.example.org\x0b", "files.example.org\x0c", "files.example.org\x7f", "files.example.org\x1b[0m"),
    # look-alike letters, or letters that normalize to others
    *("fіles.example.org", "files.еxample.org", "ﬁles.example.org", "ｆｉｌｅｓ.example.org", "ⓕiles.example.org"),
    *("files。example。org", "files．example．org", "files｡example.org", "filés.example.org", "fileſ.example.org"),
    *("files.example.org\u200b", "files\u00ad.example.org", "\u202efiles.example.org", "files.example.ørg"),
    *("xn--files-abc.example.org", "xn--.example.org", "files.xn--exampe-2qd.org", "FİLES.example.org"),
    *("files%2eexample%2eorg.evil.test", "files%E3%80%82example.org", "%66iles.example.org"),
    # this machine and its neighbours, in every spelling
    *("localhost", "LOCALHOST", "localhost.", "localhost.localdomain", "a.localhost", "printer.local", "db.internal"),
    *("127.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0x7f.1", "0x7f.0.0.1"),
    *("0177.0.0.1", "017700000001", "127.0.0.1.", "127.000.000.001", "1.2.3", "1.2.3.4", "256.256.256.256"),
    *("[::1]", "::1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[fe80::1%25eth0]", "[::]", "[0:0:0:0:0:0:0:1]"),
    *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal"),
    *("10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "224.0.0.1", "255.255.255.255", "0x"),
    *("1.0.0.127.in-addr.arpa", "example.0x7f", "example.127", "example.1e1", "example.0"),
    # not a host name
    *("", ".", "..", "-", "-files.example.org", "files-.example.org", "files.example.org-", "*", "*.example.org"),
    *("*files.example.org", "files.*.org", "_dns.files.example.org", "files_.example.org", "fi les.example.org"),
    *(f"{LONG}.example.org", ".".join(["a" * 60] * 5) + ".example.org", "files.example.org:443:443", "a" * 9000),
    *("$(id).example.org", "`id`.example.org", "files.example.org|id", "'files.example.org'", '"files.example.org"'),
    *("<files.example.org>", "{files}.example.org", "files.example.org~", "files.example.org!", "file://etc/passwd"),
)

SAME = ("files.example.org", "FILES.example.ORG", "Files.Example.Org", "files.example.org.")
"""Spellings of the allowed host."""
