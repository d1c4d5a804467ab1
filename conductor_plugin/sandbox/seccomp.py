"""The seccomp filter: which system calls sandboxed code may not make, as a BPF program.

It names what is refused, not what is allowed: the C library and numerical packages of tomorrow make calls that
no list of today knows, and namespaces or landlock already hide files, network and processes. The filter takes away
what these leave: sockets, the kernel's less travelled parts (where most holes were found), memory that belongs to
no process and so escapes the count, and quotas that are shared with the user outside. Calls that are newer than
this table do not exist (ENOSYS), for which every C library has a fallback.
"""

import errno
import platform
import struct

# name: (x86_64, aarch64); None where the architecture has no such call.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # network; socketpair has a rule of its own
    **{"socket": (41, 198), "connect": (42, 203), "accept": (43, 202), "bind": (49, 200), "listen": (50, 201)},
    **{"accept4": (288, 242)},
    # other processes
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448)},
    **{"migrate_pages": (256, 238), "move_pages": (279, 239)},
    # mounts and namespaces
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97)},
    **{"setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430)},
    **{"fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442)},
    **{"name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "quotactl": (179, 60)},
    **{"quotactl_fd": (443, 443), "fanotify_init": (300, 262), "fanotify_mark": (301, 263)},
    # memory that no process's resident size shows
    **{"memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186)},
    **{"semget": (64, 190), "mq_open": (240, 180), "mq_unlink": (241, 181), "vmsplice": (278, 75)},
    # quotas shared with the user outside
    **{"inotify_init": (253, None), "inotify_init1": (294, 26)},
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)},
    # the kernel's less travelled parts
    **{"bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425)},
    **{"io_uring_enter": (426, 426), "io_uring_register": (427, 427), "personality": (135, 92)},
    **{"modify_ldt": (154, None), "uselib": (134, None), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42)},
    **{"sysfs": (139, None), "_sysctl": (156, None), "ustat": (136, None), "vhangup": (153, 58)},
    # the machine itself
    **{"reboot": (169, 142), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105)},
    **{"finit_module": (313, 273), "delete_module": (176, 106), "swapon": (167, 224), "swapoff": (168, 225)},
    **{"acct": (163, 89), "syslog": (103, 116), "iopl": (172, None), "ioperm": (173, None)},
    **{"settimeofday": (164, 170), "adjtimex": (159, 171), "clock_settime": (227, 112), "clock_adjtime": (305, 266)},
    **{"sethostname": (170, 161), "setdomainname": (171, 162)},
}
# Without namespaces, code shares this machine's processes and, where it runs as the user, owns the user's
# files: it may not signal, slow down or limit the former, nor change the latter's modes (landlock lets it).
DENIED_IF_SHARED: dict[str, tuple[int | None, int | None]] = {
    **{"kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138)},
    **{"rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424)},
    **{"setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setparam": (142, 118), "sched_setattr": (314, 274)},
    **{"sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122)},
    **{"chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None)},
    **{"fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "truncate": (76, 45), "utime": (132, None)},
    **{"utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5)},
    **{"lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15)},
    **{"fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466)},
}
NEWEST = 466
CLONE, CLONE3, SOCKETPAIR, IOCTL = (56, 220), (435, 435), (53, 199), (16, 29)
FCNTL, PRLIMIT64 = (72, 25), (302, 261)

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET
TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into the user's terminal
SIGNAL_OWNER = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP: a signal to somebody else when input arrives
FCNTL_OWNER = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: the same
AF_UNIX, SOCK_STREAM = 1, 1

LOAD, JUMP_EQ, JUMP_GT, JUMP_ANY_BIT, AND, RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
NUMBER, ARCHITECTURE = 0, 4  # offsets in struct seccomp_data; argument n follows at 16 + 8 n, low half first
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
REFUSE, ABSENT = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS


def supported() -> bool:
    """Whether the table has a column for this processor."""
    return platform.machine() in AUDIT_ARCH and struct.calcsize("P") == 8


def program(*, shared: bool = False, machine: str | None = None) -> bytes:
    """The filter as an array of struct sock_filter. `shared`: code sees the processes and files outside."""
    machine = machine or platform.machine()
    column = list(AUDIT_ARCH).index(machine)
    denied = [numbers[column] for numbers in {**DENIED, **(DENIED_IF_SHARED if shared else {})}.values()]
    ioctls = TERMINAL_INPUT + (SIGNAL_OWNER if shared else ())
    lines = [
        *_unless(LOAD, ARCHITECTURE, JUMP_EQ, AUDIT_ARCH[machine], KILL),
        _line(LOAD, NUMBER),
        *_if(JUMP_GT, NEWEST, ABSENT),  # also x32's numbers, which begin at 2**30
        *_if(JUMP_EQ, CLONE3[column], ABSENT),  # its flags lie in memory, where a filter cannot look
        *(line for number in denied if number is not None for line in _if(JUMP_EQ, number, REFUSE)),
        *_call(CLONE[column], _argument(0, _if(JUMP_ANY_BIT, NEW_NAMESPACES, REFUSE))),
        # asyncio needs a pair; a datagram one could be pointed at any socket outside.
        *_call(SOCKETPAIR[column], _stream_pair_only()),
        *_call(IOCTL[column], _argument(1, [line for code in ioctls for line in _if(JUMP_EQ, code, REFUSE)])),
    ]
    if shared:
        owners = [line for code in FCNTL_OWNER for line in _if(JUMP_EQ, code, REFUSE)]
        lines += _call(FCNTL[column], _argument(1, owners))
        lines += _call(PRLIMIT64[column], _unless(LOAD, 16, JUMP_EQ, 0, REFUSE))
    return b"".join([*lines, _line(RETURN, ALLOW)])


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _if(jump: int, value: int, verdict: int) -> list[bytes]:
    return [_line(jump, value, 0, 1), _line(RETURN, verdict)]


def _unless(load: int, offset: int, jump: int, value: int, verdict: int) -> list[bytes]:
    return [_line(load, offset), _line(jump, value, 1, 0), _line(RETURN, verdict)]


def _argument(index: int, body: list[bytes]) -> list[bytes]:
    return [_line(LOAD, 16 + 8 * index), *body]


def _call(number: int, body: list[bytes]) -> list[bytes]:
    """`body`, for that call alone; a call that it does not refuse is allowed."""
    return [_line(JUMP_EQ, number, 0, len(body) + 1), *body, _line(RETURN, ALLOW)]


def _stream_pair_only() -> list[bytes]:
    return [
        *_unless(LOAD, 16, JUMP_EQ, AF_UNIX, REFUSE),
        *(_line(LOAD, 24), _line(AND, 0xF)),  # without SOCK_CLOEXEC and SOCK_NONBLOCK
        *(_line(JUMP_EQ, SOCK_STREAM, 1, 0), _line(RETURN, REFUSE)),
    ]
