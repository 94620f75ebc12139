"""The errors of the protocol: one constant and one class per code.

    Malformed                 the bytes are not the protocol: the connection is closed
    KafkaError                a request, or one of its partitions, was refused; `code` goes on the wire
        OffsetOutOfRange, NotLeaderOrFollower, ...

`retriable` says whether the same request may succeed later. Callers branch on the class or on `retriable`, never on a
number.
"""

from typing import ClassVar


class Malformed(ValueError):
    """Bytes that are not a message of the protocol."""


class KafkaError(Exception):
    """What went wrong, as Kafka names it; `message` says it to a person."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.name)
        self.message = message or self.name


UNKNOWN_SERVER_ERROR = -1
NONE = 0
OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_FETCH_SIZE = 4
LEADER_NOT_AVAILABLE = 5
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
BROKER_NOT_AVAILABLE = 8
REPLICA_NOT_AVAILABLE = 9
MESSAGE_TOO_LARGE = 10
STALE_CONTROLLER_EPOCH = 11
OFFSET_METADATA_TOO_LARGE = 12
NETWORK_EXCEPTION = 13
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
INVALID_TOPIC_EXCEPTION = 17
RECORD_LIST_TOO_LARGE = 18
NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
INVALID_REQUIRED_ACKS = 21
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
INVALID_COMMIT_OFFSET_SIZE = 28
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
INVALID_TIMESTAMP = 32
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_CONFIG = 40
NOT_CONTROLLER = 41
INVALID_REQUEST = 42
UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
POLICY_VIOLATION = 44
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
INVALID_PRODUCER_ID_MAPPING = 49
INVALID_TRANSACTION_TIMEOUT = 50
CONCURRENT_TRANSACTIONS = 51
TRANSACTION_COORDINATOR_FENCED = 52
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
SECURITY_DISABLED = 54
OPERATION_NOT_ATTEMPTED = 55
KAFKA_STORAGE_ERROR = 56
LOG_DIR_NOT_FOUND = 57
SASL_AUTHENTICATION_FAILED = 58
UNKNOWN_PRODUCER_ID = 59
REASSIGNMENT_IN_PROGRESS = 60
DELEGATION_TOKEN_AUTH_DISABLED = 61
DELEGATION_TOKEN_NOT_FOUND = 62
DELEGATION_TOKEN_OWNER_MISMATCH = 63
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
DELEGATION_TOKEN_EXPIRED = 66
INVALID_PRINCIPAL_TYPE = 67
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
LISTENER_NOT_FOUND = 72
TOPIC_DELETION_DISABLED = 73
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
UNSUPPORTED_COMPRESSION_TYPE = 76
STALE_BROKER_EPOCH = 77
OFFSET_NOT_AVAILABLE = 78
MEMBER_ID_REQUIRED = 79
PREFERRED_LEADER_NOT_AVAILABLE = 80
GROUP_MAX_SIZE_REACHED = 81
FENCED_INSTANCE_ID = 82
ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
ELECTION_NOT_NEEDED = 84
NO_REASSIGNMENT_IN_PROGRESS = 85
GROUP_SUBSCRIBED_TO_TOPIC = 86
INVALID_RECORD = 87
UNSTABLE_OFFSET_COMMIT = 88
THROTTLING_QUOTA_EXCEEDED = 89
PRODUCER_FENCED = 90
RESOURCE_NOT_FOUND = 91
DUPLICATE_RESOURCE = 92
UNACCEPTABLE_CREDENTIAL = 93
INCONSISTENT_VOTER_SET = 94
INVALID_UPDATE_VERSION = 95
FEATURE_UPDATE_FAILED = 96
PRINCIPAL_DESERIALIZATION_FAILURE = 97
SNAPSHOT_NOT_FOUND = 98
POSITION_OUT_OF_RANGE = 99
UNKNOWN_TOPIC_ID = 100
DUPLICATE_BROKER_REGISTRATION = 101
BROKER_ID_NOT_REGISTERED = 102
INCONSISTENT_TOPIC_ID = 103
INCONSISTENT_CLUSTER_ID = 104
TRANSACTIONAL_ID_NOT_FOUND = 105
FETCH_SESSION_TOPIC_ID_ERROR = 106
INELIGIBLE_REPLICA = 107
NEW_LEADER_ELECTED = 108
OFFSET_MOVED_TO_TIERED_STORAGE = 109
FENCED_MEMBER_EPOCH = 110
UNRELEASED_INSTANCE_ID = 111
UNSUPPORTED_ASSIGNOR = 112
STALE_MEMBER_EPOCH = 113
MISMATCHED_ENDPOINT_TYPE = 114
UNSUPPORTED_ENDPOINT_TYPE = 115
UNKNOWN_CONTROLLER_ID = 116
UNKNOWN_SUBSCRIPTION_ID = 117
TELEMETRY_TOO_LARGE = 118
INVALID_REGISTRATION = 119
TRANSACTION_ABORTABLE = 120
INVALID_RECORD_STATE = 121
SHARE_SESSION_NOT_FOUND = 122
INVALID_SHARE_SESSION_EPOCH = 123
FENCED_STATE_EPOCH = 124
INVALID_VOTER_KEY = 125
DUPLICATE_VOTER = 126
VOTER_NOT_FOUND = 127
INVALID_REGULAR_EXPRESSION = 128
REBOOTSTRAP_REQUIRED = 129
STREAMS_INVALID_TOPOLOGY = 130
STREAMS_INVALID_TOPOLOGY_EPOCH = 131
STREAMS_TOPOLOGY_FENCED = 132
SHARE_SESSION_LIMIT_REACHED = 133


class UnknownServerError(KafkaError):
    """Unknown server error."""

    code = UNKNOWN_SERVER_ERROR
    retriable = False
    name = "UNKNOWN_SERVER_ERROR"


class OffsetOutOfRange(KafkaError):
    """Offset out of range."""

    code = OFFSET_OUT_OF_RANGE
    retriable = False
    name = "OFFSET_OUT_OF_RANGE"


class CorruptMessage(KafkaError):
    """Corrupt message."""

    code = CORRUPT_MESSAGE
    retriable = True
    name = "CORRUPT_MESSAGE"


class UnknownTopicOrPartition(KafkaError):
    """Unknown topic or partition."""

    code = UNKNOWN_TOPIC_OR_PARTITION
    retriable = True
    name = "UNKNOWN_TOPIC_OR_PARTITION"


class InvalidFetchSize(KafkaError):
    """Invalid fetch size."""

    code = INVALID_FETCH_SIZE
    retriable = False
    name = "INVALID_FETCH_SIZE"


class LeaderNotAvailable(KafkaError):
    """Leader not available."""

    code = LEADER_NOT_AVAILABLE
    retriable = True
    name = "LEADER_NOT_AVAILABLE"


class NotLeaderOrFollower(KafkaError):
    """Not leader or follower."""

    code = NOT_LEADER_OR_FOLLOWER
    retriable = True
    name = "NOT_LEADER_OR_FOLLOWER"


class RequestTimedOut(KafkaError):
    """Request timed out."""

    code = REQUEST_TIMED_OUT
    retriable = True
    name = "REQUEST_TIMED_OUT"


class BrokerNotAvailable(KafkaError):
    """Broker not available."""

    code = BROKER_NOT_AVAILABLE
    retriable = False
    name = "BROKER_NOT_AVAILABLE"


class ReplicaNotAvailable(KafkaError):
    """Replica not available."""

    code = REPLICA_NOT_AVAILABLE
    retriable = True
    name = "REPLICA_NOT_AVAILABLE"


class MessageTooLarge(KafkaError):
    """Message too large."""

    code = MESSAGE_TOO_LARGE
    retriable = False
    name = "MESSAGE_TOO_LARGE"


class StaleControllerEpoch(KafkaError):
    """Stale controller epoch."""

    code = STALE_CONTROLLER_EPOCH
    retriable = False
    name = "STALE_CONTROLLER_EPOCH"


class OffsetMetadataTooLarge(KafkaError):
    """Offset metadata too large."""

    code = OFFSET_METADATA_TOO_LARGE
    retriable = False
    name = "OFFSET_METADATA_TOO_LARGE"


class NetworkException(KafkaError):
    """Network exception."""

    code = NETWORK_EXCEPTION
    retriable = True
    name = "NETWORK_EXCEPTION"


class CoordinatorLoadInProgress(KafkaError):
    """Coordinator load in progress."""

    code = COORDINATOR_LOAD_IN_PROGRESS
    retriable = True
    name = "COORDINATOR_LOAD_IN_PROGRESS"


class CoordinatorNotAvailable(KafkaError):
    """Coordinator not available."""

    code = COORDINATOR_NOT_AVAILABLE
    retriable = True
    name = "COORDINATOR_NOT_AVAILABLE"


class NotCoordinator(KafkaError):
    """Not coordinator."""

    code = NOT_COORDINATOR
    retriable = True
    name = "NOT_COORDINATOR"


class InvalidTopic(KafkaError):
    """Invalid topic exception."""

    code = INVALID_TOPIC_EXCEPTION
    retriable = False
    name = "INVALID_TOPIC_EXCEPTION"


class RecordListTooLarge(KafkaError):
    """Record list too large."""

    code = RECORD_LIST_TOO_LARGE
    retriable = False
    name = "RECORD_LIST_TOO_LARGE"


class NotEnoughReplicas(KafkaError):
    """Not enough replicas."""

    code = NOT_ENOUGH_REPLICAS
    retriable = True
    name = "NOT_ENOUGH_REPLICAS"


class NotEnoughReplicasAfterAppend(KafkaError):
    """Not enough replicas after append."""

    code = NOT_ENOUGH_REPLICAS_AFTER_APPEND
    retriable = True
    name = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"


class InvalidRequiredAcks(KafkaError):
    """Invalid required acks."""

    code = INVALID_REQUIRED_ACKS
    retriable = False
    name = "INVALID_REQUIRED_ACKS"


class IllegalGeneration(KafkaError):
    """Illegal generation."""

    code = ILLEGAL_GENERATION
    retriable = False
    name = "ILLEGAL_GENERATION"


class InconsistentGroupProtocol(KafkaError):
    """Inconsistent group protocol."""

    code = INCONSISTENT_GROUP_PROTOCOL
    retriable = False
    name = "INCONSISTENT_GROUP_PROTOCOL"


class InvalidGroupId(KafkaError):
    """Invalid group id."""

    code = INVALID_GROUP_ID
    retriable = False
    name = "INVALID_GROUP_ID"


class UnknownMemberId(KafkaError):
    """Unknown member id."""

    code = UNKNOWN_MEMBER_ID
    retriable = False
    name = "UNKNOWN_MEMBER_ID"


class InvalidSessionTimeout(KafkaError):
    """Invalid session timeout."""

    code = INVALID_SESSION_TIMEOUT
    retriable = False
    name = "INVALID_SESSION_TIMEOUT"


class RebalanceInProgress(KafkaError):
    """Rebalance in progress."""

    code = REBALANCE_IN_PROGRESS
    retriable = False
    name = "REBALANCE_IN_PROGRESS"


class InvalidCommitOffsetSize(KafkaError):
    """Invalid commit offset size."""

    code = INVALID_COMMIT_OFFSET_SIZE
    retriable = False
    name = "INVALID_COMMIT_OFFSET_SIZE"


class TopicAuthorizationFailed(KafkaError):
    """Topic authorization failed."""

    code = TOPIC_AUTHORIZATION_FAILED
    retriable = False
    name = "TOPIC_AUTHORIZATION_FAILED"


class GroupAuthorizationFailed(KafkaError):
    """Group authorization failed."""

    code = GROUP_AUTHORIZATION_FAILED
    retriable = False
    name = "GROUP_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailed(KafkaError):
    """Cluster authorization failed."""

    code = CLUSTER_AUTHORIZATION_FAILED
    retriable = False
    name = "CLUSTER_AUTHORIZATION_FAILED"


class InvalidTimestamp(KafkaError):
    """Invalid timestamp."""

    code = INVALID_TIMESTAMP
    retriable = False
    name = "INVALID_TIMESTAMP"


class UnsupportedSaslMechanism(KafkaError):
    """Unsupported sasl mechanism."""

    code = UNSUPPORTED_SASL_MECHANISM
    retriable = False
    name = "UNSUPPORTED_SASL_MECHANISM"


class IllegalSaslState(KafkaError):
    """Illegal sasl state."""

    code = ILLEGAL_SASL_STATE
    retriable = False
    name = "ILLEGAL_SASL_STATE"


class UnsupportedVersion(KafkaError):
    """Unsupported version."""

    code = UNSUPPORTED_VERSION
    retriable = False
    name = "UNSUPPORTED_VERSION"


class TopicAlreadyExists(KafkaError):
    """Topic already exists."""

    code = TOPIC_ALREADY_EXISTS
    retriable = False
    name = "TOPIC_ALREADY_EXISTS"


class InvalidPartitions(KafkaError):
    """Invalid partitions."""

    code = INVALID_PARTITIONS
    retriable = False
    name = "INVALID_PARTITIONS"


class InvalidReplicationFactor(KafkaError):
    """Invalid replication factor."""

    code = INVALID_REPLICATION_FACTOR
    retriable = False
    name = "INVALID_REPLICATION_FACTOR"


class InvalidReplicaAssignment(KafkaError):
    """Invalid replica assignment."""

    code = INVALID_REPLICA_ASSIGNMENT
    retriable = False
    name = "INVALID_REPLICA_ASSIGNMENT"


class InvalidConfig(KafkaError):
    """Invalid config."""

    code = INVALID_CONFIG
    retriable = False
    name = "INVALID_CONFIG"


class NotController(KafkaError):
    """Not controller."""

    code = NOT_CONTROLLER
    retriable = True
    name = "NOT_CONTROLLER"


class InvalidRequest(KafkaError):
    """Invalid request."""

    code = INVALID_REQUEST
    retriable = False
    name = "INVALID_REQUEST"


class UnsupportedForMessageFormat(KafkaError):
    """Unsupported for message format."""

    code = UNSUPPORTED_FOR_MESSAGE_FORMAT
    retriable = False
    name = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class PolicyViolation(KafkaError):
    """Policy violation."""

    code = POLICY_VIOLATION
    retriable = False
    name = "POLICY_VIOLATION"


class OutOfOrderSequenceNumber(KafkaError):
    """Out of order sequence number."""

    code = OUT_OF_ORDER_SEQUENCE_NUMBER
    retriable = False
    name = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class DuplicateSequenceNumber(KafkaError):
    """Duplicate sequence number."""

    code = DUPLICATE_SEQUENCE_NUMBER
    retriable = False
    name = "DUPLICATE_SEQUENCE_NUMBER"


class InvalidProducerEpoch(KafkaError):
    """Invalid producer epoch."""

    code = INVALID_PRODUCER_EPOCH
    retriable = False
    name = "INVALID_PRODUCER_EPOCH"


class InvalidTxnState(KafkaError):
    """Invalid txn state."""

    code = INVALID_TXN_STATE
    retriable = False
    name = "INVALID_TXN_STATE"


class InvalidProducerIdMapping(KafkaError):
    """Invalid producer id mapping."""

    code = INVALID_PRODUCER_ID_MAPPING
    retriable = False
    name = "INVALID_PRODUCER_ID_MAPPING"


class InvalidTransactionTimeout(KafkaError):
    """Invalid transaction timeout."""

    code = INVALID_TRANSACTION_TIMEOUT
    retriable = False
    name = "INVALID_TRANSACTION_TIMEOUT"


class ConcurrentTransactions(KafkaError):
    """Concurrent transactions."""

    code = CONCURRENT_TRANSACTIONS
    retriable = True
    name = "CONCURRENT_TRANSACTIONS"


class TransactionCoordinatorFenced(KafkaError):
    """Transaction coordinator fenced."""

    code = TRANSACTION_COORDINATOR_FENCED
    retriable = False
    name = "TRANSACTION_COORDINATOR_FENCED"


class TransactionalIdAuthorizationFailed(KafkaError):
    """Transactional id authorization failed."""

    code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    retriable = False
    name = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


class SecurityDisabled(KafkaError):
    """Security disabled."""

    code = SECURITY_DISABLED
    retriable = False
    name = "SECURITY_DISABLED"


class OperationNotAttempted(KafkaError):
    """Operation not attempted."""

    code = OPERATION_NOT_ATTEMPTED
    retriable = False
    name = "OPERATION_NOT_ATTEMPTED"


class KafkaStorageError(KafkaError):
    """Kafka storage error."""

    code = KAFKA_STORAGE_ERROR
    retriable = True
    name = "KAFKA_STORAGE_ERROR"


class LogDirNotFound(KafkaError):
    """Log dir not found."""

    code = LOG_DIR_NOT_FOUND
    retriable = False
    name = "LOG_DIR_NOT_FOUND"


class SaslAuthenticationFailed(KafkaError):
    """Sasl authentication failed."""

    code = SASL_AUTHENTICATION_FAILED
    retriable = False
    name = "SASL_AUTHENTICATION_FAILED"


class UnknownProducerId(KafkaError):
    """Unknown producer id."""

    code = UNKNOWN_PRODUCER_ID
    retriable = False
    name = "UNKNOWN_PRODUCER_ID"


class ReassignmentInProgress(KafkaError):
    """Reassignment in progress."""

    code = REASSIGNMENT_IN_PROGRESS
    retriable = False
    name = "REASSIGNMENT_IN_PROGRESS"


class DelegationTokenAuthDisabled(KafkaError):
    """Delegation token auth disabled."""

    code = DELEGATION_TOKEN_AUTH_DISABLED
    retriable = False
    name = "DELEGATION_TOKEN_AUTH_DISABLED"


class DelegationTokenNotFound(KafkaError):
    """Delegation token not found."""

    code = DELEGATION_TOKEN_NOT_FOUND
    retriable = False
    name = "DELEGATION_TOKEN_NOT_FOUND"


class DelegationTokenOwnerMismatch(KafkaError):
    """Delegation token owner mismatch."""

    code = DELEGATION_TOKEN_OWNER_MISMATCH
    retriable = False
    name = "DELEGATION_TOKEN_OWNER_MISMATCH"


class DelegationTokenRequestNotAllowed(KafkaError):
    """Delegation token request not allowed."""

    code = DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    retriable = False
    name = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


class DelegationTokenAuthorizationFailed(KafkaError):
    """Delegation token authorization failed."""

    code = DELEGATION_TOKEN_AUTHORIZATION_FAILED
    retriable = False
    name = "DELEGATION_TOKEN_AUTHORIZATION_FAILED"


class DelegationTokenExpired(KafkaError):
    """Delegation token expired."""

    code = DELEGATION_TOKEN_EXPIRED
    retriable = False
    name = "DELEGATION_TOKEN_EXPIRED"


class InvalidPrincipalType(KafkaError):
    """Invalid principal type."""

    code = INVALID_PRINCIPAL_TYPE
    retriable = False
    name = "INVALID_PRINCIPAL_TYPE"


class NonEmptyGroup(KafkaError):
    """Non empty group."""

    code = NON_EMPTY_GROUP
    retriable = False
    name = "NON_EMPTY_GROUP"


class GroupIdNotFound(KafkaError):
    """Group id not found."""

    code = GROUP_ID_NOT_FOUND
    retriable = False
    name = "GROUP_ID_NOT_FOUND"


class FetchSessionIdNotFound(KafkaError):
    """Fetch session id not found."""

    code = FETCH_SESSION_ID_NOT_FOUND
    retriable = True
    name = "FETCH_SESSION_ID_NOT_FOUND"


class InvalidFetchSessionEpoch(KafkaError):
    """Invalid fetch session epoch."""

    code = INVALID_FETCH_SESSION_EPOCH
    retriable = True
    name = "INVALID_FETCH_SESSION_EPOCH"


class ListenerNotFound(KafkaError):
    """Listener not found."""

    code = LISTENER_NOT_FOUND
    retriable = True
    name = "LISTENER_NOT_FOUND"


class TopicDeletionDisabled(KafkaError):
    """Topic deletion disabled."""

    code = TOPIC_DELETION_DISABLED
    retriable = False
    name = "TOPIC_DELETION_DISABLED"


class FencedLeaderEpoch(KafkaError):
    """Fenced leader epoch."""

    code = FENCED_LEADER_EPOCH
    retriable = True
    name = "FENCED_LEADER_EPOCH"


class UnknownLeaderEpoch(KafkaError):
    """Unknown leader epoch."""

    code = UNKNOWN_LEADER_EPOCH
    retriable = True
    name = "UNKNOWN_LEADER_EPOCH"


class UnsupportedCompressionType(KafkaError):
    """Unsupported compression type."""

    code = UNSUPPORTED_COMPRESSION_TYPE
    retriable = False
    name = "UNSUPPORTED_COMPRESSION_TYPE"


class StaleBrokerEpoch(KafkaError):
    """Stale broker epoch."""

    code = STALE_BROKER_EPOCH
    retriable = False
    name = "STALE_BROKER_EPOCH"


class OffsetNotAvailable(KafkaError):
    """Offset not available."""

    code = OFFSET_NOT_AVAILABLE
    retriable = True
    name = "OFFSET_NOT_AVAILABLE"


class MemberIdRequired(KafkaError):
    """Member id required."""

    code = MEMBER_ID_REQUIRED
    retriable = False
    name = "MEMBER_ID_REQUIRED"


class PreferredLeaderNotAvailable(KafkaError):
    """Preferred leader not available."""

    code = PREFERRED_LEADER_NOT_AVAILABLE
    retriable = True
    name = "PREFERRED_LEADER_NOT_AVAILABLE"


class GroupMaxSizeReached(KafkaError):
    """Group max size reached."""

    code = GROUP_MAX_SIZE_REACHED
    retriable = False
    name = "GROUP_MAX_SIZE_REACHED"


class FencedInstanceId(KafkaError):
    """Fenced instance id."""

    code = FENCED_INSTANCE_ID
    retriable = False
    name = "FENCED_INSTANCE_ID"


class EligibleLeadersNotAvailable(KafkaError):
    """Eligible leaders not available."""

    code = ELIGIBLE_LEADERS_NOT_AVAILABLE
    retriable = True
    name = "ELIGIBLE_LEADERS_NOT_AVAILABLE"


class ElectionNotNeeded(KafkaError):
    """Election not needed."""

    code = ELECTION_NOT_NEEDED
    retriable = True
    name = "ELECTION_NOT_NEEDED"


class NoReassignmentInProgress(KafkaError):
    """No reassignment in progress."""

    code = NO_REASSIGNMENT_IN_PROGRESS
    retriable = False
    name = "NO_REASSIGNMENT_IN_PROGRESS"


class GroupSubscribedToTopic(KafkaError):
    """Group subscribed to topic."""

    code = GROUP_SUBSCRIBED_TO_TOPIC
    retriable = False
    name = "GROUP_SUBSCRIBED_TO_TOPIC"


class InvalidRecord(KafkaError):
    """Invalid record."""

    code = INVALID_RECORD
    retriable = False
    name = "INVALID_RECORD"


class UnstableOffsetCommit(KafkaError):
    """Unstable offset commit."""

    code = UNSTABLE_OFFSET_COMMIT
    retriable = True
    name = "UNSTABLE_OFFSET_COMMIT"


class ThrottlingQuotaExceeded(KafkaError):
    """Throttling quota exceeded."""

    code = THROTTLING_QUOTA_EXCEEDED
    retriable = True
    name = "THROTTLING_QUOTA_EXCEEDED"


class ProducerFenced(KafkaError):
    """Producer fenced."""

    code = PRODUCER_FENCED
    retriable = False
    name = "PRODUCER_FENCED"


class ResourceNotFound(KafkaError):
    """Resource not found."""

    code = RESOURCE_NOT_FOUND
    retriable = False
    name = "RESOURCE_NOT_FOUND"


class DuplicateResource(KafkaError):
    """Duplicate resource."""

    code = DUPLICATE_RESOURCE
    retriable = False
    name = "DUPLICATE_RESOURCE"


class UnacceptableCredential(KafkaError):
    """Unacceptable credential."""

    code = UNACCEPTABLE_CREDENTIAL
    retriable = False
    name = "UNACCEPTABLE_CREDENTIAL"


class InconsistentVoterSet(KafkaError):
    """Inconsistent voter set."""

    code = INCONSISTENT_VOTER_SET
    retriable = False
    name = "INCONSISTENT_VOTER_SET"


class InvalidUpdateVersion(KafkaError):
    """Invalid update version."""

    code = INVALID_UPDATE_VERSION
    retriable = False
    name = "INVALID_UPDATE_VERSION"


class FeatureUpdateFailed(KafkaError):
    """Feature update failed."""

    code = FEATURE_UPDATE_FAILED
    retriable = False
    name = "FEATURE_UPDATE_FAILED"


class PrincipalDeserializationFailure(KafkaError):
    """Principal deserialization failure."""

    code = PRINCIPAL_DESERIALIZATION_FAILURE
    retriable = False
    name = "PRINCIPAL_DESERIALIZATION_FAILURE"


class SnapshotNotFound(KafkaError):
    """Snapshot not found."""

    code = SNAPSHOT_NOT_FOUND
    retriable = False
    name = "SNAPSHOT_NOT_FOUND"


class PositionOutOfRange(KafkaError):
    """Position out of range."""

    code = POSITION_OUT_OF_RANGE
    retriable = False
    name = "POSITION_OUT_OF_RANGE"


class UnknownTopicId(KafkaError):
    """Unknown topic id."""

    code = UNKNOWN_TOPIC_ID
    retriable = True
    name = "UNKNOWN_TOPIC_ID"


class DuplicateBrokerRegistration(KafkaError):
    """Duplicate broker registration."""

    code = DUPLICATE_BROKER_REGISTRATION
    retriable = False
    name = "DUPLICATE_BROKER_REGISTRATION"


class BrokerIdNotRegistered(KafkaError):
    """Broker id not registered."""

    code = BROKER_ID_NOT_REGISTERED
    retriable = False
    name = "BROKER_ID_NOT_REGISTERED"


class InconsistentTopicId(KafkaError):
    """Inconsistent topic id."""

    code = INCONSISTENT_TOPIC_ID
    retriable = True
    name = "INCONSISTENT_TOPIC_ID"


class InconsistentClusterId(KafkaError):
    """Inconsistent cluster id."""

    code = INCONSISTENT_CLUSTER_ID
    retriable = False
    name = "INCONSISTENT_CLUSTER_ID"


class TransactionalIdNotFound(KafkaError):
    """Transactional id not found."""

    code = TRANSACTIONAL_ID_NOT_FOUND
    retriable = False
    name = "TRANSACTIONAL_ID_NOT_FOUND"


class FetchSessionTopicIdError(KafkaError):
    """Fetch session topic id error."""

    code = FETCH_SESSION_TOPIC_ID_ERROR
    retriable = True
    name = "FETCH_SESSION_TOPIC_ID_ERROR"


class IneligibleReplica(KafkaError):
    """Ineligible replica."""

    code = INELIGIBLE_REPLICA
    retriable = False
    name = "INELIGIBLE_REPLICA"


class NewLeaderElected(KafkaError):
    """New leader elected."""

    code = NEW_LEADER_ELECTED
    retriable = False
    name = "NEW_LEADER_ELECTED"


class OffsetMovedToTieredStorage(KafkaError):
    """Offset moved to tiered storage."""

    code = OFFSET_MOVED_TO_TIERED_STORAGE
    retriable = False
    name = "OFFSET_MOVED_TO_TIERED_STORAGE"


class FencedMemberEpoch(KafkaError):
    """Fenced member epoch."""

    code = FENCED_MEMBER_EPOCH
    retriable = False
    name = "FENCED_MEMBER_EPOCH"


class UnreleasedInstanceId(KafkaError):
    """Unreleased instance id."""

    code = UNRELEASED_INSTANCE_ID
    retriable = False
    name = "UNRELEASED_INSTANCE_ID"


class UnsupportedAssignor(KafkaError):
    """Unsupported assignor."""

    code = UNSUPPORTED_ASSIGNOR
    retriable = False
    name = "UNSUPPORTED_ASSIGNOR"


class StaleMemberEpoch(KafkaError):
    """Stale member epoch."""

    code = STALE_MEMBER_EPOCH
    retriable = False
    name = "STALE_MEMBER_EPOCH"


class MismatchedEndpointType(KafkaError):
    """Mismatched endpoint type."""

    code = MISMATCHED_ENDPOINT_TYPE
    retriable = False
    name = "MISMATCHED_ENDPOINT_TYPE"


class UnsupportedEndpointType(KafkaError):
    """Unsupported endpoint type."""

    code = UNSUPPORTED_ENDPOINT_TYPE
    retriable = False
    name = "UNSUPPORTED_ENDPOINT_TYPE"


class UnknownControllerId(KafkaError):
    """Unknown controller id."""

    code = UNKNOWN_CONTROLLER_ID
    retriable = False
    name = "UNKNOWN_CONTROLLER_ID"


class UnknownSubscriptionId(KafkaError):
    """Unknown subscription id."""

    code = UNKNOWN_SUBSCRIPTION_ID
    retriable = False
    name = "UNKNOWN_SUBSCRIPTION_ID"


class TelemetryTooLarge(KafkaError):
    """Telemetry too large."""

    code = TELEMETRY_TOO_LARGE
    retriable = False
    name = "TELEMETRY_TOO_LARGE"


class InvalidRegistration(KafkaError):
    """Invalid registration."""

    code = INVALID_REGISTRATION
    retriable = False
    name = "INVALID_REGISTRATION"


class TransactionAbortable(KafkaError):
    """Transaction abortable."""

    code = TRANSACTION_ABORTABLE
    retriable = False
    name = "TRANSACTION_ABORTABLE"


class InvalidRecordState(KafkaError):
    """Invalid record state."""

    code = INVALID_RECORD_STATE
    retriable = False
    name = "INVALID_RECORD_STATE"


class ShareSessionNotFound(KafkaError):
    """Share session not found."""

    code = SHARE_SESSION_NOT_FOUND
    retriable = True
    name = "SHARE_SESSION_NOT_FOUND"


class InvalidShareSessionEpoch(KafkaError):
    """Invalid share session epoch."""

    code = INVALID_SHARE_SESSION_EPOCH
    retriable = True
    name = "INVALID_SHARE_SESSION_EPOCH"


class FencedStateEpoch(KafkaError):
    """Fenced state epoch."""

    code = FENCED_STATE_EPOCH
    retriable = False
    name = "FENCED_STATE_EPOCH"


class InvalidVoterKey(KafkaError):
    """Invalid voter key."""

    code = INVALID_VOTER_KEY
    retriable = False
    name = "INVALID_VOTER_KEY"


class DuplicateVoter(KafkaError):
    """Duplicate voter."""

    code = DUPLICATE_VOTER
    retriable = False
    name = "DUPLICATE_VOTER"


class VoterNotFound(KafkaError):
    """Voter not found."""

    code = VOTER_NOT_FOUND
    retriable = False
    name = "VOTER_NOT_FOUND"


class InvalidRegularExpression(KafkaError):
    """Invalid regular expression."""

    code = INVALID_REGULAR_EXPRESSION
    retriable = False
    name = "INVALID_REGULAR_EXPRESSION"


class RebootstrapRequired(KafkaError):
    """Rebootstrap required."""

    code = REBOOTSTRAP_REQUIRED
    retriable = False
    name = "REBOOTSTRAP_REQUIRED"


class StreamsInvalidTopology(KafkaError):
    """Streams invalid topology."""

    code = STREAMS_INVALID_TOPOLOGY
    retriable = False
    name = "STREAMS_INVALID_TOPOLOGY"


class StreamsInvalidTopologyEpoch(KafkaError):
    """Streams invalid topology epoch."""

    code = STREAMS_INVALID_TOPOLOGY_EPOCH
    retriable = False
    name = "STREAMS_INVALID_TOPOLOGY_EPOCH"


class StreamsTopologyFenced(KafkaError):
    """Streams topology fenced."""

    code = STREAMS_TOPOLOGY_FENCED
    retriable = False
    name = "STREAMS_TOPOLOGY_FENCED"


class ShareSessionLimitReached(KafkaError):
    """Share session limit reached."""

    code = SHARE_SESSION_LIMIT_REACHED
    retriable = True
    name = "SHARE_SESSION_LIMIT_REACHED"


_CLASSES: dict[int, type[KafkaError]] = {kind.code: kind for kind in KafkaError.__subclasses__()}


def for_code(code: int) -> type[KafkaError]:
    """The class of a code; a code from the future is an UnknownServerError, so that callers need no special case."""
    return _CLASSES.get(code, UnknownServerError)
