"""What may leave the machine: never the contents of hidden files, nor what contains a secret of one."""

from threading import Lock

from handhold.core.errors import ToolError
from handhold.core.policy.guarded_view import make_visibility_check
from handhold.core.text.redaction import can_contain_secret, flatten
from handhold.logs import log_swallowed
from handhold.pipeline.workspace_policy import WorkspacePolicy


class ShippingPolicy:
    """Every policy that a workspace was opened with: what one of them hides stays here. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._policies: list[WorkspacePolicy] = []

    def add(self, policy: WorkspacePolicy) -> None:
        with self._lock:
            if policy not in self._policies:
                self._policies.append(policy)

    def may_ship(self, path: str, data: bytes) -> bool:
        """Whether bytes may be shipped that are, or were, at this path; an empty path is that of a reply."""
        with self._lock:
            policies = [*self._policies]
        try:
            return bool(policies) and all(_allows(policy, path, data) for policy in policies)
        except ToolError:
            log_swallowed()
            return False  # the hidden files cannot be found now, so nobody can tell

    def learn(self, path: str, data: bytes) -> None:
        """Take note of the secrets in an earlier content of a hidden file."""
        with self._lock:
            policies = [*self._policies]
        for policy in policies:
            if not make_visibility_check(policy.policy)(path):
                policy.secret_files.learn_content(path, data)


def _allows(policy: WorkspacePolicy, path: str, data: bytes) -> bool:
    if path and not make_visibility_check(policy.policy)(path):
        return False
    if not can_contain_secret(data):
        return True
    redaction = policy.secret_files.redaction()
    return not (redaction and redaction.find(data, flatten(data)))
