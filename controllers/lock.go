package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrOtherInstall is why an operator ends whose namespace is run by one of another
// install: two would undo each other's work for ever.
var ErrOtherInstall = errors.New("the namespace is run by another install of the operator")

// LeaseName is the Lease in the watched namespace that the operator at work holds.
const LeaseName = "ghostline-operator"

// lock is a Lease's, which tells a replica of the same install, whose end is waited
// for, from another install, beside which this one must not run.
type lock struct {
	*resourcelock.LeaseLock
	install string
	refuse  context.CancelCauseFunc
	// seen is the other install's last sign of life.
	seen metav1.Time
}

// newLock makes the lock; refuse is called with an ErrOtherInstall.
func newLock(o Options, refuse context.CancelCauseFunc) (*lock, error) {
	leases, err := coordinationclient.NewForConfig(o.API)
	if err != nil {
		return nil, err
	}
	install := o.Install
	if o.Region != "" {
		install += "/" + o.Region
	}
	return &lock{
		LeaseLock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: LeaseName},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: install + "@" + o.Identity},
		},
		install: install,
		refuse:  refuse,
	}, nil
}

// Get reads the Lease, and refuses to go on if another install is alive. One that has
// ended gave the Lease back, or is not heard of again.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err != nil {
		return record, raw, err
	}
	holder, _, _ := strings.Cut(record.HolderIdentity, "@")
	if holder == "" || holder == l.install {
		return record, raw, nil
	}
	lease := time.Duration(record.LeaseDurationSeconds) * time.Second
	renewed := !l.seen.IsZero() && !l.seen.Equal(&record.RenewTime) // whatever its clock says
	if l.seen = record.RenewTime; renewed || time.Since(record.RenewTime.Time) < lease {
		l.refuse(fmt.Errorf("namespace %s: %w, %s (this is %s); uninstall one, or give them namespaces of their own",
			l.LeaseMeta.Namespace, ErrOtherInstall, holder, l.install))
	}
	return record, raw, nil
}
