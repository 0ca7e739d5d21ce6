"""The foundation: plans, movements, journal, outboxes, registries, nonces, balances."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('audit_events',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('outbox_id', sa.BigInteger(), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('actor', sa.Text(), nullable=False),
    sa.Column('action', sa.Text(), nullable=False),
    sa.Column('subject_type', sa.Text(), nullable=False),
    sa.Column('subject_id', sa.Text(), nullable=False),
    sa.Column('details', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('occurred_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('promoted_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('previous_hash', sa.Text(), nullable=True),
    sa.Column('row_hash', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_audit_events')),
    sa.UniqueConstraint('outbox_id', name=op.f('uq_audit_events_outbox_id')),
    schema='qtg'
    )
    op.create_index('ix_audit_events_subject', 'audit_events', ['subject_type', 'subject_id'], unique=False, schema='qtg')
    op.create_table('audit_outbox',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('actor', sa.Text(), nullable=False),
    sa.Column('action', sa.Text(), nullable=False),
    sa.Column('subject_type', sa.Text(), nullable=False),
    sa.Column('subject_id', sa.Text(), nullable=False),
    sa.Column('details', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('occurred_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('promoted_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_audit_outbox')),
    schema='qtg'
    )
    op.create_index('ix_audit_outbox_pending', 'audit_outbox', ['id'], unique=False, schema='qtg', postgresql_where=sa.text('promoted_at IS NULL'))
    op.create_table('balance_snapshots',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('venue_key', sa.Text(), nullable=False),
    sa.Column('account', sa.Text(), nullable=False),
    sa.Column('wallet', sa.Text(), nullable=False),
    sa.Column('asset', sa.Text(), nullable=False),
    sa.Column('free', sa.Numeric(), nullable=False),
    sa.Column('locked', sa.Numeric(), server_default=sa.text('0'), nullable=False),
    sa.Column('source_time', sa.DateTime(timezone=True), nullable=True),
    sa.Column('source_height', sa.BigInteger(), nullable=True),
    sa.Column('request_started_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('request_ended_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('complete', sa.Boolean(), nullable=False),
    sa.Column('recorded_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_balance_snapshots')),
    schema='qtg'
    )
    op.create_index('ix_balance_snapshots_latest', 'balance_snapshots', ['venue_key', 'account', 'wallet', 'asset', sa.literal_column('recorded_at DESC')], unique=False, schema='qtg')
    op.create_index('ix_balance_snapshots_recorded_at', 'balance_snapshots', ['recorded_at'], unique=False, schema='qtg')
    op.create_table('cycles',
    sa.Column('worker', sa.Text(), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('cycle_key', sa.Text(), nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('result', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.PrimaryKeyConstraint('network_class', 'worker', 'cycle_key', name=op.f('pk_cycles')),
    schema='qtg'
    )
    op.create_table('executor_registry',
    sa.Column('executor_key', sa.Text(), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('health_state', sa.Text(), server_default=sa.text("'unknown'"), nullable=False),
    sa.Column('health_detail', sa.Text(), nullable=True),
    sa.Column('latency_ms', sa.Float(), nullable=True),
    sa.Column('checked_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('changed_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('orphan', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.CheckConstraint("health_state IN ('degraded', 'down', 'healthy', 'unknown')", name=op.f('ck_executor_registry_health_state')),
    sa.PrimaryKeyConstraint('network_class', 'executor_key', name=op.f('pk_executor_registry')),
    schema='qtg'
    )
    op.create_table('movement_templates',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('template_key', sa.Text(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.CheckConstraint("template_key <> ''", name=op.f('ck_movement_templates_template_key_not_empty')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_movement_templates')),
    sa.UniqueConstraint('template_key', name=op.f('uq_movement_templates_template_key')),
    schema='qtg'
    )
    op.create_table('runners',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('host', sa.Text(), nullable=False),
    sa.Column('pid', sa.Integer(), nullable=False),
    sa.Column('dagster_run_id', sa.Text(), nullable=True),
    sa.Column('started_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('end_reason', sa.Text(), nullable=True),
    sa.CheckConstraint('id <= 2147483647', name=op.f('ck_runners_id_fits_lock')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_runners')),
    schema='qtg'
    )
    op.create_table('signer_journal',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('chain', sa.Text(), nullable=False),
    sa.Column('sender', sa.Text(), nullable=False),
    sa.Column('nonce', sa.BigInteger(), nullable=False),
    sa.Column('request_node_id', sa.UUID(as_uuid=False), nullable=False),
    sa.Column('role', sa.Text(), nullable=False),
    sa.Column('effect_hash', sa.Text(), nullable=False),
    sa.Column('signed_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.CheckConstraint("effect_hash <> ''", name=op.f('ck_signer_journal_effect_hash_not_empty')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_signer_journal')),
    sa.UniqueConstraint('chain', 'sender', 'nonce', name=op.f('uq_signer_journal_chain_sender_nonce')),
    sa.UniqueConstraint('request_node_id', 'role', name=op.f('uq_signer_journal_request_node_id_role')),
    schema='qtg'
    )
    op.create_table('signer_registry',
    sa.Column('signer_key', sa.Text(), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('health_state', sa.Text(), server_default=sa.text("'unknown'"), nullable=False),
    sa.Column('health_detail', sa.Text(), nullable=True),
    sa.Column('latency_ms', sa.Float(), nullable=True),
    sa.Column('checked_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('changed_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('orphan', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('expected_signer_address', sa.Text(), nullable=True),
    sa.Column('observed_signer_address', sa.Text(), nullable=True),
    sa.CheckConstraint("health_state IN ('degraded', 'down', 'healthy', 'unknown')", name=op.f('ck_signer_registry_health_state')),
    sa.PrimaryKeyConstraint('network_class', 'signer_key', name=op.f('pk_signer_registry')),
    schema='qtg'
    )
    op.create_table('worker_heartbeats',
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('worker', sa.Text(), nullable=False),
    sa.Column('last_attempt_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('last_success_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('last_outcome', sa.Text(), nullable=True),
    sa.Column('last_duration_ms', sa.Float(), nullable=True),
    sa.Column('last_items', sa.Integer(), nullable=True),
    sa.Column('consecutive_errors', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('last_error', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('network_class', 'worker', name=op.f('pk_worker_heartbeats')),
    schema='qtg'
    )
    op.create_table('movement_plan_versions',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('template_id', sa.BigInteger(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=False),
    sa.Column('title', sa.Text(), nullable=False),
    sa.Column('description', sa.Text(), nullable=False),
    sa.Column('graph_hash', sa.Text(), nullable=False),
    sa.Column('parameters', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'::jsonb"), nullable=False),
    sa.Column('risk_controls', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['template_id'], ['qtg.movement_templates.id'], name=op.f('fk_movement_plan_versions_template_id_movement_templates')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_movement_plan_versions')),
    sa.UniqueConstraint('template_id', 'version', name=op.f('uq_movement_plan_versions_template_id_version')),
    schema='qtg'
    )
    op.create_table('movement_plan_edges',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('plan_version_id', sa.BigInteger(), nullable=False),
    sa.Column('from_node', sa.Text(), nullable=False),
    sa.Column('to_node', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['plan_version_id'], ['qtg.movement_plan_versions.id'], name=op.f('fk_movement_plan_edges_plan_version_id_movement_plan_versions')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_movement_plan_edges')),
    sa.UniqueConstraint('plan_version_id', 'from_node', 'to_node', name=op.f('uq_movement_plan_edges_plan_version_id_from_node_to_node')),
    schema='qtg'
    )
    op.create_table('movement_plan_nodes',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('plan_version_id', sa.BigInteger(), nullable=False),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('node_key', sa.Text(), nullable=False),
    sa.Column('node_kind', sa.Text(), nullable=False),
    sa.Column('action_type', sa.Text(), nullable=False),
    sa.Column('executor_key', sa.Text(), nullable=True),
    sa.Column('signer_role', sa.Text(), nullable=True),
    sa.Column('config', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('timeout_policy', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.CheckConstraint("node_kind IN ('action', 'manual', 'observe')", name=op.f('ck_movement_plan_nodes_node_kind')),
    sa.ForeignKeyConstraint(['plan_version_id'], ['qtg.movement_plan_versions.id'], name=op.f('fk_movement_plan_nodes_plan_version_id_movement_plan_versions')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_movement_plan_nodes')),
    sa.UniqueConstraint('plan_version_id', 'node_key', name=op.f('uq_movement_plan_nodes_plan_version_id_node_key')),
    schema='qtg'
    )
    op.create_table('movement_requests',
    sa.Column('id', sa.UUID(as_uuid=False), server_default=sa.text('gen_random_uuid()'), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('plan_version_id', sa.BigInteger(), nullable=False),
    sa.Column('request_state', sa.Text(), nullable=False),
    sa.Column('state_version', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('idempotency_key', sa.Text(), nullable=True),
    sa.Column('body_hash', sa.Text(), nullable=False),
    sa.Column('intent', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('input_params', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('resolved_bindings', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('compiled_plan_hash', sa.Text(), nullable=False),
    sa.Column('approval_digest', sa.Text(), nullable=False),
    sa.Column('current_frontier', sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
    sa.Column('requested_by', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('callback_url', sa.Text(), nullable=True),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('approved_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("idempotency_key <> ''", name=op.f('ck_movement_requests_idempotency_key_not_empty')),
    sa.CheckConstraint("request_state IN ('APPROVED', 'CANCELLED', 'COMPLETED', 'EXECUTING', 'EXPIRED', 'FAILED', 'MANUAL_INTERVENTION', 'PENDING_APPROVAL', 'REJECTED', 'WAITING_MANUAL_ACTION')", name=op.f('ck_movement_requests_request_state')),
    sa.CheckConstraint("requested_by <> ''", name=op.f('ck_movement_requests_requested_by_not_empty')),
    sa.ForeignKeyConstraint(['plan_version_id'], ['qtg.movement_plan_versions.id'], name=op.f('fk_movement_requests_plan_version_id_movement_plan_versions')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_movement_requests')),
    schema='qtg'
    )
    op.create_index('ix_movement_requests_expiring', 'movement_requests', ['expires_at'], unique=False, schema='qtg', postgresql_where=sa.text("request_state = 'PENDING_APPROVAL'"))
    op.create_index('ix_movement_requests_finished', 'movement_requests', ['finished_at'], unique=False, schema='qtg', postgresql_where=sa.text('finished_at IS NOT NULL'))
    op.create_index('ix_movement_requests_open', 'movement_requests', ['created_at'], unique=False, schema='qtg', postgresql_where=sa.text('finished_at IS NULL'))
    op.create_index('uq_movement_requests_idempotency_key', 'movement_requests', ['network_class', 'idempotency_key'], unique=True, schema='qtg')
    op.create_table('movement_approvals',
    sa.Column('id', sa.UUID(as_uuid=False), server_default=sa.text('gen_random_uuid()'), nullable=False),
    sa.Column('request_id', sa.UUID(as_uuid=False), nullable=False),
    sa.Column('decision', sa.Text(), nullable=False),
    sa.Column('actor', sa.Text(), nullable=False),
    sa.Column('compiled_plan_hash', sa.Text(), nullable=False),
    sa.Column('approval_digest', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('decided_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.CheckConstraint("actor <> ''", name=op.f('ck_movement_approvals_actor_not_empty')),
    sa.CheckConstraint("decision IN ('approved', 'rejected')", name=op.f('ck_movement_approvals_decision')),
    sa.ForeignKeyConstraint(['request_id'], ['qtg.movement_requests.id'], name=op.f('fk_movement_approvals_request_id_movement_requests')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_movement_approvals')),
    sa.UniqueConstraint('request_id', 'actor', name=op.f('uq_movement_approvals_request_id_actor')),
    schema='qtg'
    )
    op.create_table('movement_callback_outbox',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('request_id', sa.UUID(as_uuid=False), nullable=False),
    sa.Column('event_type', sa.Text(), nullable=False),
    sa.Column('payload', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('callback_url', sa.Text(), nullable=False),
    sa.Column('callback_timestamp', sa.BigInteger(), server_default=sa.text('extract(epoch from now())::bigint'), nullable=False),
    sa.Column('callback_nonce', sa.UUID(as_uuid=False), server_default=sa.text('gen_random_uuid()'), nullable=False),
    sa.Column('status', sa.Text(), server_default=sa.text("'pending'"), nullable=False),
    sa.Column('attempts', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('next_attempt_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('delivered_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('last_error', sa.Text(), nullable=True),
    sa.CheckConstraint("event_type IN ('frontier_advanced', 'request_attention', 'request_state_changed')", name=op.f('ck_movement_callback_outbox_event_type')),
    sa.CheckConstraint("status IN ('delivered', 'dlq', 'pending')", name=op.f('ck_movement_callback_outbox_status')),
    sa.ForeignKeyConstraint(['request_id'], ['qtg.movement_requests.id'], name=op.f('fk_movement_callback_outbox_request_id_movement_requests')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_movement_callback_outbox')),
    schema='qtg'
    )
    op.create_index('ix_movement_callback_outbox_pending', 'movement_callback_outbox', ['created_at'], unique=False, schema='qtg', postgresql_where=sa.text("status = 'pending'"))
    op.create_index('ix_movement_callback_outbox_request_id', 'movement_callback_outbox', ['request_id'], unique=False, schema='qtg')
    op.create_table('movement_request_nodes',
    sa.Column('id', sa.UUID(as_uuid=False), server_default=sa.text('gen_random_uuid()'), nullable=False),
    sa.Column('request_id', sa.UUID(as_uuid=False), nullable=False),
    sa.Column('plan_node_id', sa.BigInteger(), nullable=False),
    sa.Column('node_key', sa.Text(), nullable=False),
    sa.Column('node_kind', sa.Text(), nullable=False),
    sa.Column('executor_key', sa.Text(), nullable=True),
    sa.Column('node_state', sa.Text(), nullable=False),
    sa.Column('state_version', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('attempt_no', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('runner_id', sa.BigInteger(), nullable=True),
    sa.Column('claim_epoch', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('claimed_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('serialization_key', sa.Text(), nullable=True),
    sa.Column('in_flight_key', sa.Text(), nullable=True),
    sa.Column('provider_refs', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('artifacts', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('error_code', sa.Text(), nullable=True),
    sa.Column('error_message', sa.Text(), nullable=True),
    sa.Column('facts_digest', sa.Text(), nullable=True),
    sa.Column('evidence_step_id', sa.BigInteger(), nullable=True),
    sa.Column('next_look_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('looks', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('request_created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('submitted_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('completed_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.CheckConstraint("node_kind IN ('action', 'manual', 'observe')", name=op.f('ck_movement_request_nodes_node_kind')),
    sa.CheckConstraint("node_state IN ('BLOCKED', 'CANCELLED', 'COMPLETED', 'FAILED', 'OBSERVING', 'READY', 'SKIPPED', 'SUBMITTED', 'SUBMITTING', 'UNKNOWN')", name=op.f('ck_movement_request_nodes_node_state')),
    sa.CheckConstraint("node_state NOT IN ('COMPLETED', 'FAILED') OR evidence_step_id IS NOT NULL", name=op.f('ck_movement_request_nodes_terminal_has_evidence')),
    sa.ForeignKeyConstraint(['evidence_step_id'], ['qtg.movement_node_steps.id'], name=op.f('fk_movement_request_nodes_evidence_step_id_movement_node_steps'), use_alter=True),
    sa.ForeignKeyConstraint(['plan_node_id'], ['qtg.movement_plan_nodes.id'], name=op.f('fk_movement_request_nodes_plan_node_id_movement_plan_nodes')),
    sa.ForeignKeyConstraint(['request_id'], ['qtg.movement_requests.id'], name=op.f('fk_movement_request_nodes_request_id_movement_requests')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_movement_request_nodes')),
    sa.UniqueConstraint('request_id', 'node_key', name=op.f('uq_movement_request_nodes_request_id_node_key')),
    schema='qtg'
    )
    op.create_index('ix_movement_request_nodes_observing', 'movement_request_nodes', ['request_created_at', 'next_look_at'], unique=False, schema='qtg', postgresql_where=sa.text("node_state IN ('SUBMITTED', 'OBSERVING')"))
    op.create_index('ix_movement_request_nodes_ready', 'movement_request_nodes', ['request_created_at'], unique=False, schema='qtg', postgresql_where=sa.text("node_state = 'READY' AND node_kind <> 'manual'"))
    op.create_index('ix_movement_request_nodes_uncertain', 'movement_request_nodes', ['updated_at'], unique=False, schema='qtg', postgresql_where=sa.text("node_state IN ('UNKNOWN', 'SUBMITTING')"))
    op.create_index('uq_movement_request_nodes_in_flight_key', 'movement_request_nodes', ['in_flight_key'], unique=True, schema='qtg', postgresql_where=sa.text('in_flight_key IS NOT NULL'))
    op.create_table('movement_node_attempts',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('request_node_id', sa.UUID(as_uuid=False), nullable=False),
    sa.Column('attempt_no', sa.Integer(), nullable=False),
    sa.Column('idempotency_key', sa.Text(), nullable=False),
    sa.Column('prepared', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('payload_hash', sa.Text(), nullable=False),
    sa.Column('signer_key', sa.Text(), nullable=True),
    sa.Column('signer_address', sa.Text(), nullable=True),
    sa.Column('outcome', sa.Text(), nullable=True),
    sa.Column('outcome_step_id', sa.BigInteger(), nullable=True),
    sa.Column('intended_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('outcome_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("idempotency_key <> ''", name=op.f('ck_movement_node_attempts_idempotency_key_not_empty')),
    sa.CheckConstraint("outcome IN ('ACCEPTED', 'COMPLETED', 'FAILED', 'NOT_SENT', 'REJECTED', 'UNKNOWN')", name=op.f('ck_movement_node_attempts_outcome')),
    sa.ForeignKeyConstraint(['request_node_id'], ['qtg.movement_request_nodes.id'], name=op.f('fk_movement_node_attempts_request_node_id_movement_request_nodes')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_movement_node_attempts')),
    sa.UniqueConstraint('idempotency_key', name=op.f('uq_movement_node_attempts_idempotency_key')),
    sa.UniqueConstraint('request_node_id', 'attempt_no', name=op.f('uq_movement_node_attempts_request_node_id_attempt_no')),
    schema='qtg'
    )
    op.create_table('movement_node_steps',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('request_node_id', sa.UUID(as_uuid=False), nullable=False),
    sa.Column('attempt_no', sa.Integer(), nullable=False),
    sa.Column('step_kind', sa.Text(), nullable=False),
    sa.Column('from_state', sa.Text(), nullable=True),
    sa.Column('to_state', sa.Text(), nullable=True),
    sa.Column('facts', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('actor', sa.Text(), nullable=True),
    sa.Column('runner_id', sa.BigInteger(), nullable=True),
    sa.Column('claim_epoch', sa.BigInteger(), nullable=True),
    sa.Column('recorded_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.CheckConstraint("step_kind IN ('deferred', 'fenced', 'intent', 'observed', 'operator', 'outcome', 'readied', 'recovered', 'refused', 'timed_out')", name=op.f('ck_movement_node_steps_step_kind')),
    sa.ForeignKeyConstraint(['request_node_id'], ['qtg.movement_request_nodes.id'], name=op.f('fk_movement_node_steps_request_node_id_movement_request_nodes')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_movement_node_steps')),
    schema='qtg'
    )
    op.create_index('ix_movement_node_steps_request_node_id', 'movement_node_steps', ['request_node_id', 'id'], unique=False, schema='qtg')
    op.create_table('evm_nonce_reservation',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('chain', sa.Text(), nullable=False),
    sa.Column('sender', sa.Text(), nullable=False),
    sa.Column('nonce', sa.BigInteger(), nullable=False),
    sa.Column('request_node_id', sa.UUID(as_uuid=False), nullable=False),
    sa.Column('attempt_no', sa.Integer(), nullable=False),
    sa.Column('reservation_state', sa.Text(), nullable=False),
    sa.Column('payload_hash', sa.Text(), nullable=True),
    sa.Column('evidence_step_id', sa.BigInteger(), nullable=True),
    sa.Column('reserved_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('bound_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('released_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("reservation_state <> 'BOUND' OR payload_hash IS NOT NULL", name=op.f('ck_evm_nonce_reservation_bound_has_payload')),
    sa.CheckConstraint("reservation_state IN ('BOUND', 'RELEASED', 'RESERVED')", name=op.f('ck_evm_nonce_reservation_reservation_state')),
    sa.CheckConstraint('nonce >= 0', name=op.f('ck_evm_nonce_reservation_nonce_not_negative')),
    sa.ForeignKeyConstraint(['evidence_step_id'], ['qtg.movement_node_steps.id'], name=op.f('fk_evm_nonce_reservation_evidence_step_id_movement_node_steps')),
    sa.ForeignKeyConstraint(['request_node_id'], ['qtg.movement_request_nodes.id'], name=op.f('fk_evm_nonce_reservation_request_node_id_movement_request_nodes')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_evm_nonce_reservation')),
    schema='qtg'
    )
    op.create_index('ix_evm_nonce_reservation_reserved', 'evm_nonce_reservation', ['reserved_at'], unique=False, schema='qtg', postgresql_where=sa.text("reservation_state = 'RESERVED'"))
    op.create_index('uq_evm_nonce_reservation_attempt', 'evm_nonce_reservation', ['request_node_id', 'attempt_no'], unique=True, schema='qtg', postgresql_where=sa.text("reservation_state <> 'RELEASED'"))
    op.create_index('uq_evm_nonce_reservation_live', 'evm_nonce_reservation', ['chain', 'sender', 'nonce'], unique=True, schema='qtg', postgresql_where=sa.text("reservation_state <> 'RELEASED'"))
    op.create_foreign_key('fk_movement_request_nodes_evidence_step_id_movement_node_steps', 'movement_request_nodes', 'movement_node_steps', ['evidence_step_id'], ['id'], source_schema='qtg', referent_schema='qtg')
    op.execute(sa.text(LIVE_RUNNERS.replace('::', r'\:\:')))
    for guard in GUARDS:
        op.execute(sa.text(guard.replace(':', r'\:')))


# Frozen texts as they were at this revision; a later change brings its own.
LIVE_RUNNERS = """CREATE VIEW qtg.live_runners AS
SELECT objid::bigint AS runner_id
FROM pg_locks
WHERE locktype = 'advisory' AND classid = 5329991 AND objsubid = 2 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""

# Frozen text of the guards as they were at this revision; a later change of moves brings its own.
GUARDS = [
    """CREATE OR REPLACE FUNCTION qtg.guard_movement_request_nodes() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    NEW.updated_at := now();
    IF TG_OP = 'INSERT' THEN
        IF NEW.node_state <> 'BLOCKED' THEN
            RAISE EXCEPTION 'movement_request_nodes must begin as BLOCKED, not %', NEW.node_state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.node_state IS DISTINCT FROM OLD.node_state THEN
        IF NOT (OLD.node_state || '>' || NEW.node_state) = ANY (ARRAY[
        'BLOCKED>CANCELLED',
        'BLOCKED>READY',
        'BLOCKED>SKIPPED',
        'FAILED>READY',
        'OBSERVING>COMPLETED',
        'OBSERVING>FAILED',
        'OBSERVING>SUBMITTED',
        'OBSERVING>UNKNOWN',
        'READY>CANCELLED',
        'READY>COMPLETED',
        'READY>FAILED',
        'READY>SKIPPED',
        'READY>SUBMITTING',
        'SUBMITTED>COMPLETED',
        'SUBMITTED>FAILED',
        'SUBMITTED>OBSERVING',
        'SUBMITTED>UNKNOWN',
        'SUBMITTING>COMPLETED',
        'SUBMITTING>FAILED',
        'SUBMITTING>READY',
        'SUBMITTING>SUBMITTED',
        'SUBMITTING>UNKNOWN',
        'UNKNOWN>COMPLETED',
        'UNKNOWN>FAILED',
        'UNKNOWN>SUBMITTED'
        ]) THEN
            RAISE EXCEPTION 'movement_request_nodes: % may not become %', OLD.node_state, NEW.node_state
                USING ERRCODE = 'check_violation', HINT = 'legal moves are declared in domain/states.py';
        END IF;
        NEW.state_version := OLD.state_version + 1;
    END IF;
    RETURN NEW;
END
$guard$""",
    """CREATE TRIGGER guard_movement_request_nodes BEFORE INSERT OR UPDATE ON qtg.movement_request_nodes FOR EACH ROW EXECUTE FUNCTION qtg.guard_movement_request_nodes()""",
    """CREATE OR REPLACE FUNCTION qtg.guard_movement_requests() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    NEW.updated_at := now();
    IF TG_OP = 'INSERT' THEN
        IF NEW.request_state <> 'PENDING_APPROVAL' THEN
            RAISE EXCEPTION 'movement_requests must begin as PENDING_APPROVAL, not %', NEW.request_state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.request_state IS DISTINCT FROM OLD.request_state THEN
        IF NOT (OLD.request_state || '>' || NEW.request_state) = ANY (ARRAY[
        'APPROVED>CANCELLED',
        'APPROVED>EXECUTING',
        'APPROVED>FAILED',
        'APPROVED>WAITING_MANUAL_ACTION',
        'EXECUTING>CANCELLED',
        'EXECUTING>COMPLETED',
        'EXECUTING>FAILED',
        'EXECUTING>MANUAL_INTERVENTION',
        'EXECUTING>WAITING_MANUAL_ACTION',
        'FAILED>CANCELLED',
        'FAILED>EXECUTING',
        'MANUAL_INTERVENTION>CANCELLED',
        'MANUAL_INTERVENTION>COMPLETED',
        'MANUAL_INTERVENTION>EXECUTING',
        'MANUAL_INTERVENTION>FAILED',
        'PENDING_APPROVAL>APPROVED',
        'PENDING_APPROVAL>CANCELLED',
        'PENDING_APPROVAL>EXPIRED',
        'PENDING_APPROVAL>REJECTED',
        'WAITING_MANUAL_ACTION>CANCELLED',
        'WAITING_MANUAL_ACTION>COMPLETED',
        'WAITING_MANUAL_ACTION>EXECUTING',
        'WAITING_MANUAL_ACTION>FAILED',
        'WAITING_MANUAL_ACTION>MANUAL_INTERVENTION'
        ]) THEN
            RAISE EXCEPTION 'movement_requests: % may not become %', OLD.request_state, NEW.request_state
                USING ERRCODE = 'check_violation', HINT = 'legal moves are declared in domain/states.py';
        END IF;
        NEW.state_version := OLD.state_version + 1;
    END IF;
    RETURN NEW;
END
$guard$""",
    """CREATE TRIGGER guard_movement_requests BEFORE INSERT OR UPDATE ON qtg.movement_requests FOR EACH ROW EXECUTE FUNCTION qtg.guard_movement_requests()""",
    """CREATE OR REPLACE FUNCTION qtg.refuse_rewrite() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    RAISE EXCEPTION '%.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$guard$""",
    """CREATE TRIGGER append_only_movement_node_steps BEFORE UPDATE OR DELETE ON qtg.movement_node_steps FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()""",
    """CREATE TRIGGER append_only_movement_approvals BEFORE UPDATE OR DELETE ON qtg.movement_approvals FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()""",
    """CREATE TRIGGER append_only_audit_events BEFORE UPDATE OR DELETE ON qtg.audit_events FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()""",
    """CREATE TRIGGER append_only_signer_journal BEFORE UPDATE OR DELETE ON qtg.signer_journal FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()""",
]
