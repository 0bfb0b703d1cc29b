package controllers

import (
	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxNote bounds an event's text, as the API server does.
const maxNote = 1024

// tell sends an event for each condition that turned, or gives another reason.
func (r *CompletionRouteReconciler) tell(before *v1alpha1.CompletionRouteStatus, after *v1alpha1.CompletionRoute) {
	for _, condition := range after.Status.Conditions {
		was := meta.FindStatusCondition(before.Conditions, condition.Type)
		if !isNews(was, condition) {
			continue
		}
		kind := corev1.EventTypeNormal
		if condition.Status != metav1.ConditionTrue && !isOnItsWay(was, condition) {
			kind = corev1.EventTypeWarning
		}
		note := condition.Type + " is " + string(condition.Status) + ": " + condition.Message
		r.Events.Eventf(after, nil, kind, condition.Reason, condition.Type, "%s", note[:min(len(note), maxNote)])
	}
}

// isNews says whether a condition says something new. Ready follows from the others,
// so it is news only when it turns.
func isNews(was *metav1.Condition, now metav1.Condition) bool {
	if now.Type == v1alpha1.ConditionReady {
		return was != nil && was.Status != now.Status || was == nil && now.Status == metav1.ConditionTrue
	}
	return was == nil || was.Status != now.Status || was.Reason != now.Reason
}

// isOnItsWay says whether a condition that is not True only waits for proxies.
func isOnItsWay(was *metav1.Condition, now metav1.Condition) bool {
	return now.Reason == v1alpha1.ReasonPending || now.Reason == v1alpha1.ReasonNoProxies && was == nil
}
