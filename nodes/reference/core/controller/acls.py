"""Requests about access control lists (KIP-140): they are created and deleted as records of the metadata log.

Contains the rules of these requests. What an ACL means is in core/records/acls.py.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.draft import Draft
from nodes.reference.core.controller.messages import AclResult, AclsResponse, CreateAcls, DeleteAcls
from nodes.reference.core.records.acls import CLUSTER_NAME, Acl, AclFilter, ResourceKind
from nodes.reference.core.records.entities import RemoveAclRecord
from nodes.reference.core.records.image import acl_record


class Acls:
    """The access control lists of the active controller."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def create(self, request: CreateAcls) -> AclsResponse:
        """Add entries; each succeeds or fails by itself, and one that is there is not added again."""
        return AclsResponse(tuple(map(self._create, request.acls)))

    def _create(self, acl: Acl) -> AclResult:
        if not acl.is_valid or (acl.kind == ResourceKind.CLUSTER and acl.name != CLUSTER_NAME):
            return AclResult(ErrorCode.invalid_request, f"Not a valid ACL: {acl}")
        if acl not in self._draft.image.acls.values():
            self._draft.write(acl_record(self._draft.random_id(), acl))
        return AclResult(ErrorCode.none)

    def delete(self, request: DeleteAcls) -> AclsResponse:
        """Remove what each filter matches; a result has what it removed."""
        return AclsResponse(tuple(map(self._delete, request.filters)))

    def _delete(self, wanted: AclFilter) -> AclResult:
        found = {acl_id: acl for acl_id, acl in self._draft.image.acls.items() if wanted.matches(acl)}
        for acl_id in found:
            self._draft.write(RemoveAclRecord(acl_id=acl_id))
        return AclResult(ErrorCode.none, None, tuple(found.values()))
